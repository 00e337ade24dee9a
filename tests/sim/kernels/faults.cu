// Bodies of kernels with one fault each. A section begins with what is wrong, the kind of fault, and a
// part of the message. A kernel has `int* A` (64 ints), `int* s` (4096 bytes of shared memory), and
// `t`, its thread of 64.

//// read before the barrier | race | data race on shared+128: thread 32 writes it
  s[t] = t; tl::sync_threads(); s[t] = 1; A[t] = s[63 - t];

//// write after a read | race | data race on shared+124: thread 32 reads it
  s[t] = t; tl::sync_threads(); A[t] = s[63 - t]; s[t] = 2;

//// two writers | race | writes it
  s[t / 2] = t;

//// a byte of a neighbour's pair | race | shared+0
  ((signed char*)s)[t / 2 * 2] = (signed char)t;

//// warps without a barrier | race | race
  if (t == 0) s[0] = 5; if (t < 32) tl::sync_warp(); A[t] = t < 32 ? s[0] : 0;
  if (t == 40) s[0] = 1;

//// sync_warp of one warp only | race | thread 33
  if (t == 0) s[0] = 5; tl::sync_warp(); if (t == 0 || t == 33) A[t] = s[0];

//// global race in a block | race | A+
  A[t] = t + 5; if (t < 63) s[t] = A[t + 1];

//// one past the end | out_of_bounds | A+256, outside the 256 bytes of A
  A[t + 1] = t;

//// before the start | out_of_bounds | A-4
  s[t] = A[t - 1];

//// half of a vector outside | out_of_bounds | writes 16 bytes at A+256
  if (t == 0) tl::store_vec(&A[62], tl::vec<int, 2>{{1, 2}});
  if (t == 1) tl::store_vec(&A[64], tl::vec<int, 4>{{1, 2, 3, 4}});

//// far away | out_of_bounds | reads 4 bytes
  s[t] = A[1 << 28];

//// null | out_of_bounds | address 0x0
  if (t == 3) *(int*)nullptr = 1;

//// shared memory | out_of_bounds | outside the 4096 bytes of shared memory
  s[t] = 0; s[1024 * 13 + t] = 0;

//// shared memory, below | out_of_bounds | shared-4
  s[t - 1] = 0;

//// never written | uninitialised | thread 0 reads shared+0
  if (s[t] == 3) A[0] = 1;

//// half written | uninitialised | shared+
  ((short*)s)[2 * t] = 1; A[t] = s[t];

//// a vector at an odd place | misaligned | multiple of 16
  if (t == 0) tl::store_vec(&s[1], tl::vec<int, 4>{{1, 2, 3, 4}});

//// an int at an odd place | misaligned | multiple of 4
  *(int*)((char*)s + 2) = t;

//// a barrier in one branch | divergence | must reach the same one
  if (t < 32) tl::sync_threads(); else
  tl::sync_threads();

//// lanes at different places | divergence | all lanes of the mask
  if (t & 1) tl::sync_warp(); else
  tl::shfl_xor(t, 1, 32);

//// half a warp shuffles | deadlock | named_barrier_sync 1
  if ((t & 31) < 16) A[t] = tl::shfl_xor(t, 1, 32); else tl::named_barrier_sync(1, 64);

//// nobody arrives | deadlock | thread 7 waits at mbar_wait
  if (t == 0) tl::mbar_init((unsigned long long*)s, 2); tl::sync_threads();
  if (t == 5) tl::mbar_arrive((unsigned long long*)s);
  if (t == 7) tl::mbar_wait((unsigned long long*)s, 0);

//// too many arrive | barrier | all 1 arrivals
  if (t == 0) tl::mbar_init((unsigned long long*)s, 1); tl::sync_threads();
  if (t == 1) tl::mbar_expect_tx((unsigned long long*)s, 16);
  if (t == 2) tl::mbar_arrive((unsigned long long*)s);

//// no such mbarrier | uninitialised | nothing has initialised
  if (t == 1) tl::mbar_arrive((unsigned long long*)s);

//// a parity of two | barrier | 0 or 1
  if (t == 0) { tl::mbar_init((unsigned long long*)s, 1);
  tl::mbar_wait((unsigned long long*)s, 2); }

//// a named barrier with two counts | barrier | count
  if (t < 32) tl::named_barrier_sync(1, 64); else tl::named_barrier_sync(1, 32);

//// a count that is no warp | barrier | multiple of 32
  tl::named_barrier_sync(1, 63);

//// arrivals that wait for more | deadlock | threads 0 to 31 wait
  if (t < 32) tl::named_barrier_sync(2, 64);

//// trap | trap | thread 9 trapped
  if (t == 9) tl::trap();

//// cp.async read too early | missing_wait | cp_async of thread
  tl::cp_async<4>(&s[t], &A[t]); tl::cp_async_commit(); A[t] = s[t];

//// cp.async of an open group | missing_wait | cp_async of thread
  tl::cp_async<4>(&s[t], &A[t]); tl::cp_async_wait<0>(); A[t] = s[t];

//// cp.async seen by others | race_or_wait | 
  tl::cp_async<4>(&s[t], &A[t]); tl::cp_async_commit(); tl::cp_async_wait<0>(); A[t] = s[t ^ 1];

//// cp.async over a reader | missing_wait | cp_async
  s[t] = 1; tl::sync_threads(); A[t ^ 1] = s[t ^ 1]; tl::cp_async<4>(&s[t], &A[t], false);

//// cp.async misaligned | misaligned | multiples of 16
  tl::cp_async<16>(&s[4 * t + 1], &A[0], true);

//// cp.async out of bounds | out_of_bounds | A+256
  tl::cp_async<16>(&s[4 * t], &A[4 * t], true);

//// ldmatrix misaligned | misaligned | ldmatrix
  unsigned r[4]; s[t] = 0; tl::sync_threads(); tl::ldmatrix<1, false>(r, &s[2]);

//// an atomic and a plain write | race | race
  s[t] = 0; tl::sync_threads(); if (t == 1) s[0] = 3; tl::atomic_add(&s[0], 1);

//// the same flag and another value later | race | thread 33
  s[0] = 7;
  if (t == 33) s[0] = 8;

//// a flag that others have set too is changed too early | race | thread 63 writes it
  s[0] = 7;
  tl::sync_warp();
  if (t == 63) s[0] = 9;

//// cp.async arrives and nobody waits | missing_wait | cp_async of thread
  unsigned long long* bar = (unsigned long long*)(s + 128); if (t == 0) tl::mbar_init(bar, 64); tl::sync_threads();
  tl::cp_async<4>(&s[t], &A[t]); tl::cp_async_mbar_arrive(bar); A[t] = s[t];

//// cp.async arrives and the wait is for the wrong parity | missing_wait | cp_async of thread
  unsigned long long* bar = (unsigned long long*)(s + 128); if (t == 0) tl::mbar_init(bar, 64); tl::sync_threads();
  tl::cp_async<4>(&s[t], &A[t]); tl::cp_async_mbar_arrive(bar); tl::mbar_wait(bar, 1); A[t] = s[t];
