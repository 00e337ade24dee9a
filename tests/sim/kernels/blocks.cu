// Bodies of kernels of several blocks. A section begins with what it is, the launch (grid, cluster, c for
// cooperative), the kind of fault (or "right"), and a part of the message. A kernel has `int* A` (64 ints of 0),
// `int* s` (4096 bytes of shared memory), `t` (its thread of 32), and `b` (its block).

//// two blocks write different values | 2 | race | data race between blocks on A+0: thread 0 of block (1, 0, 0) writes it (line 11), and thread 0 of block (0, 0, 0) wrote it (line 11)
  A[t] = b + 1;

//// two blocks write the same value | 2 | right |
  A[t] = 7;

//// one block changes what another sets again | 2 | race | data race between blocks on A+0
  A[t] = b ? 7 : 0;

//// one block reads what another writes | 2 | race | thread 3 of block (1, 0, 0) reads it (line 11), and thread 4 of block (0, 0, 0) wrote it (line 11)
  if (b == 0) A[t] = t + 1; else if (t == 3) s[0] = A[4];

//// the last byte of a neighbour | 2 | race | A+31
  ((signed char*)A)[t + 31 * b] = (signed char)(b + 1);

//// neighbours that do not touch | 2 | right |
  ((signed char*)A)[t + 32 * b] = (signed char)(b + 1);

//// updates of one counter | 4 | right |
  tl::atomic_add(&A[0], 1);

//// an update and a plain store | 2 | race | data race between blocks on A+0
  if (b) tl::atomic_add(&A[0], 1); else if (t == 0) A[0] = 5;

//// an update and a plain read | 2 | race | data race between blocks on A+0
  if (b == 0) tl::atomic_add(&A[0], 1); else s[t] = A[0];

//// a vector store over another's element | 2 | race | A+12
  if (t == 0) { if (b) A[3] = 9; else tl::store_vec(&A[0], tl::vec<int, 4>{{1, 2, 3, 4}}); }

//// a flag between blocks | 2 | right |
  if (b == 0) { A[t] = t; tl::sync_threads(); if (t == 0) { tl::memory_fence<1>(); tl::atomic_store(&A[40], 1); } }
  else { if (t == 0) { while (tl::atomic_load(&A[40]) == 0) {} tl::memory_fence<0>(); } tl::sync_threads(); A[t] += 1; }

//// a flag that comes from a later block | 2 | right |
  if (b == 1) { A[t] = t; tl::sync_threads(); if (t == 0) { tl::memory_fence<1>(); tl::atomic_store(&A[40], 1); } }
  else { if (t == 0) { while (tl::atomic_load(&A[40]) == 0) {} tl::memory_fence<0>(); } tl::sync_threads(); A[t] += 1; }

//// a flag without a release | 2 | race | A+
  if (b == 0) { A[t] = t + 1; tl::sync_threads(); if (t == 0) tl::atomic_store(&A[40], 1); }
  else { if (t == 0) { while (tl::atomic_load(&A[40]) == 0) {} tl::memory_fence<0>(); } tl::sync_threads(); s[t] = A[t]; }

//// a flag without an acquire | 2 | race | A+
  if (b == 0) { A[t] = t + 1; tl::sync_threads(); if (t == 0) { tl::memory_fence<1>(); tl::atomic_store(&A[40], 1); } }
  else { if (t == 0) while (tl::atomic_load(&A[40]) == 0) {} tl::sync_threads(); s[t] = A[t]; }

//// a release before other threads have written | 2 | race | A+
  if (b == 0) { if (t == 0) { tl::memory_fence<1>(); tl::atomic_store(&A[40], 1); } A[t] = t + 1; }
  else { if (t == 0) { while (tl::atomic_load(&A[40]) == 0) {} tl::memory_fence<0>(); } tl::sync_threads(); s[t] = A[t]; }

//// the last block sums up | 4 | right |
  A[b * 8 + t % 8] = b; tl::sync_threads();
  if (t == 0) { tl::memory_fence<3>(); s[0] = tl::atomic_add(&A[40], 1); tl::memory_fence<3>(); } tl::sync_threads();
  if (s[0] == 3) A[32] = A[0] + A[8] + A[16] + A[24];

//// the last block sums up without fences | 4 | race | A+
  A[b * 8 + t % 8] = b + 1; tl::sync_threads();
  if (t == 0) { s[0] = tl::atomic_add(&A[40], 1); if (s[0] == 9) tl::memory_fence<3>(); } tl::sync_threads();
  if (s[0] == 3) A[32] = A[0] + A[8] + A[16] + A[24];

//// a flag that nobody sets | 2 | deadlock | thread 0 of block (1, 0, 0) waits at a look at memory that nobody changes (line 11)
  if (b && t == 0) while (tl::atomic_load(&A[40]) == 0) {}

//// two blocks wait for each other | 2 | deadlock | of block (0, 0, 0) waits
  if (t == 0) { while (tl::atomic_load(&A[40 + b]) == 0) {} tl::atomic_store(&A[41 - b], 1); }

//// a barrier of the grid | 4 c | right |
  A[b] = b; tl::sync_grid(); s[t] = A[t % 4]; tl::sync_grid(); A[b] = s[t] * 0 + 3;

//// a barrier of the grid is missing | 4 c | race | A+
  A[b] = b + 1; tl::sync_grid(); s[t] = A[t % 4]; A[b] = 9;

//// a barrier of the grid in a branch | 4 c | deadlock | sync_grid
  if (b) tl::sync_grid();

//// barriers of the grid at two places | 2 c | divergence | all threads of the grid must reach the same one
  if (b) tl::sync_grid(); else
  tl::sync_grid();

//// a barrier of a grid that is not cooperative | 2 | barrier | not launched cooperatively
  tl::sync_grid();

//// a peer's shared memory | 4 /2 | right |
  s[t] = (int)tl::block_rank_in_cluster() * 100 + t; tl::cluster_arrive(); tl::cluster_wait();
  A[b * 16 + t % 16] = tl::map_shared(s, 1 - tl::block_rank_in_cluster())[t % 16]; tl::cluster_arrive(); tl::cluster_wait();

//// a peer's shared memory before the barrier | 2 /2 | race | shared+
  s[t] = t + 5; if (b == 1) A[t] = tl::map_shared(s, 0)[t]; tl::cluster_arrive(); tl::cluster_wait();

//// a relaxed arrival orders nothing | 2 /2 | race | shared+
  s[t] = t + 5; tl::cluster_arrive_relaxed(); tl::cluster_wait(); A[b * 32 + t] = tl::map_shared(s, 1 - b)[t];
  tl::cluster_arrive(); tl::cluster_wait();

//// a peer that has ended | 2 /2 | out_of_bounds | which has ended
  s[t] = t; tl::cluster_arrive(); tl::cluster_wait(); if (b == 1) { for (int i = 0; i < 3; ++i) tl::sync_threads(); A[t] = tl::map_shared(s, 0)[t]; }

//// a peer writes over a reader | 2 /2 | race | shared+
  s[t] = t; tl::cluster_arrive(); tl::cluster_wait(); if (b) tl::map_shared(s, 0)[t] = 9; else A[t] = s[t ^ 1];
  tl::cluster_arrive(); tl::cluster_wait();

//// clusters are not ordered with each other | 4 /2 | race | data race between blocks on A+
  tl::cluster_arrive(); tl::cluster_wait(); A[t] = b / 2 + 1;

//// within a cluster the barrier orders global memory | 2 /2 | right |
  if (b == 0) A[t] = t + 1; tl::cluster_arrive(); tl::cluster_wait(); if (b == 1) A[t] += 1;

//// a block of a cluster does not arrive | 2 /2 | deadlock | cluster_wait
  if (b == 0) { tl::cluster_arrive(); tl::cluster_wait(); } else { while (tl::atomic_load(&A[3]) == 0) {} }

//// a wait without an arrival | 2 /2 | barrier | without a cluster_arrive
  tl::cluster_wait();

//// two arrivals | 2 /2 | barrier | again before a cluster_wait
  tl::cluster_arrive(); tl::cluster_arrive();

//// no cluster | 2 | barrier | launched without a cluster
  tl::cluster_arrive(); tl::cluster_wait();

//// a block outside the cluster | 2 /2 | out_of_bounds | of block 2 of a cluster of 2
  s[t] = tl::map_shared(s, 2)[0];

//// peers arrive at a barrier of block 0 | 2 /2 | right |
  unsigned long long* bar = (unsigned long long*)s;
  if (t == 0) { tl::mbar_init(bar, 2); tl::fence_mbar_init(); } tl::cluster_arrive(); tl::cluster_wait();
  if (b == 1) tl::map_shared(s, 0)[4 + t] = t; tl::sync_warp(); if (t == 0) tl::mbar_arrive_remote(bar, 0);
  if (b == 0) { tl::mbar_wait(bar, 0); A[t] = s[4 + t]; } tl::cluster_arrive(); tl::cluster_wait();

//// a remote arrival that orders too little | 2 /2 | race | shared+
  unsigned long long* bar = (unsigned long long*)s;
  if (t == 0) { tl::mbar_init(bar, 2); tl::fence_mbar_init(); } tl::cluster_arrive(); tl::cluster_wait();
  if (b == 1) tl::map_shared(s, 0)[4 + t] = t; if (t == 0) tl::mbar_arrive_remote(bar, 0);
  if (b == 0) { tl::mbar_wait(bar, 0); A[t] = s[4 + t]; } tl::cluster_arrive(); tl::cluster_wait();

//// a bulk copy to a peer | 2 /2 | right |
  unsigned long long* bar = (unsigned long long*)s; s[32 + t] = b * 100 + t;
  if (t == 0) { tl::mbar_init(bar, 1); tl::mbar_expect_tx(bar, 128); } tl::fence_proxy_async(); tl::cluster_arrive(); tl::cluster_wait();
  if (t == 0) tl::copy_cluster(&s[64], &s[32], 128, bar, 1 - b);
  tl::mbar_wait(bar, 0); if (s[64 + t] == (1 - b) * 100 + t) A[b * 32 + t] = 1; tl::cluster_arrive(); tl::cluster_wait();

//// a bulk copy that is not waited for | 2 /2 | missing_wait | may still be writing
  unsigned long long* bar = (unsigned long long*)s; s[32 + t] = b * 100 + t;
  if (t == 0) { tl::mbar_init(bar, 1); tl::mbar_expect_tx(bar, 128); } tl::fence_proxy_async(); tl::cluster_arrive(); tl::cluster_wait();
  if (t == 0) tl::copy_cluster(&s[64], &s[32], 128, bar, 1 - b); tl::cluster_arrive(); tl::cluster_wait();
  A[b * 32 + t] = s[64 + t]; tl::mbar_wait(bar, 0);

//// a bulk copy of what no fence has made visible | 2 /2 | missing_fence | fence_proxy_async
  unsigned long long* bar = (unsigned long long*)s;
  if (t == 0) { tl::mbar_init(bar, 1); tl::mbar_expect_tx(bar, 128); } tl::fence_proxy_async(); tl::cluster_arrive(); tl::cluster_wait();
  s[32 + t] = b * 100 + t; tl::sync_warp(); if (t == 0) tl::copy_cluster(&s[64], &s[32], 128, bar, 1 - b);
  tl::mbar_wait(bar, 0); tl::cluster_arrive(); tl::cluster_wait();

//// a bulk copy of fewer bytes than announced | 2 /2 | deadlock | bytes
  unsigned long long* bar = (unsigned long long*)s; s[32 + t] = b * 100 + t;
  if (t == 0) { tl::mbar_init(bar, 1); tl::mbar_expect_tx(bar, 256); } tl::fence_proxy_async(); tl::cluster_arrive(); tl::cluster_wait();
  if (t == 0) tl::copy_cluster(&s[64], &s[32], 128, bar, 1 - b); tl::mbar_wait(bar, 0);
