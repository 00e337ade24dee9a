// Bodies of kernels that look like those in faults.cu and are right. The same names are in scope.

//// 16-bit neighbours
  ((short*)s)[t] = (short)t; tl::sync_threads(); A[t] = ((short*)s)[63 - t];

//// 8-bit neighbours
  ((signed char*)s)[t] = (signed char)t; tl::sync_threads(); A[t] = ((signed char*)s)[63 - t];

//// bytes, then words
  ((signed char*)s)[t] = 1; tl::sync_threads(); if (t < 16) A[t] = s[t]; tl::sync_threads();
  if (t < 16) s[t] = 0;

//// vectors, then bytes
  if (t < 16) tl::store_vec(&s[4 * t], tl::vec<int, 4>{{1, 2, 3, 4}}); tl::sync_threads();
  A[t] = ((signed char*)s)[t];
  tl::sync_threads(); ((signed char*)s)[t] = 3; tl::sync_threads();
  if (t < 4) tl::store_vec(&s[4 * t], tl::vec<int, 4>{{0, 0, 0, 0}});

//// everybody reads one word
  if (t == 0) s[0] = 7; tl::sync_threads(); A[t] = s[0]; tl::sync_threads();
  if (t == 63) s[0] = 8;

//// its own word
  for (int i = 0; i < 5; ++i) { s[t] = i; A[t] = s[t]; }

//// sync_warp
  s[t] = t; tl::sync_warp(); A[t] = s[t ^ 31]; tl::sync_warp(); s[t ^ 31] = 2;

//// half warps on their own
  if (t < 64) { const unsigned m = t % 32 < 16 ? 0xffffu : 0xffff0000u; s[t] = t;
  tl::sync_warp(m); A[t] = s[t ^ 15]; }

//// named barriers of two pairs of warps
  s[t] = t; tl::named_barrier_sync(1 + t / 32, 32); A[t] = s[t ^ 31];

//// producer and consumer
  if (t < 32) { s[t] = t; tl::named_barrier_arrive(3, 64); } else { tl::named_barrier_sync(3, 64);
  A[t] = s[t - 32]; }

//// threads that return early
  if (t >= 40) return; s[t] = t; tl::sync_threads(); A[t] = s[39 - t];

//// lanes that return before a shuffle
  if (t == 63) return; A[t] = tl::shfl_down(t, 1, 32);

//// an mbarrier as a barrier
  unsigned long long* b = (unsigned long long*)s; if (t == 0) { tl::mbar_init(b, 64);
  tl::fence_mbar_init(); } tl::sync_threads();
  s[8 + t] = t; tl::mbar_arrive(b); tl::mbar_wait(b, 0); A[t] = s[8 + (t ^ 63)];

//// an mbarrier over many phases
  unsigned long long* b = (unsigned long long*)s; if (t == 0) tl::mbar_init(b, 64);
  tl::sync_threads();
  for (int i = 0; i < 9; ++i) { if (i % 64 == t) s[8] = i; tl::mbar_arrive(b);
  tl::mbar_wait(b, i & 1); A[t] = s[8]; tl::sync_threads(); }

//// cp.async in order
  tl::cp_async<4>(&s[t], &A[t]); tl::cp_async_commit(); tl::cp_async<4>(&s[64 + t], &A[t]);
  tl::cp_async_commit(); tl::cp_async_wait<1>(); s[t] += 1;
  tl::cp_async_wait<0>(); tl::sync_threads(); A[t] = s[64 + (t ^ 1)];

//// atomics together
  s[t] = 0; tl::sync_threads(); tl::atomic_add(&s[t & 3], 1); tl::atomic_max(&A[0], t);
  tl::sync_threads(); A[t] = s[t & 3];

//// a local array
  int v[8]; for (int i = 0; i < 8; ++i) v[(i * 3 + t) & 7] = i; A[t] = v[t & 7];

//// a constant table
  static const int table[4] = {1, 2, 3, 4}; A[t] = table[t & 3];

//// all threads set the same flag
  s[0] = 7;
  A[1] = s[0];
  s[0] = 7;
  tl::sync_threads();
  if (t == 3) s[0] = 8;

//// cp.async arrives at an mbarrier
  unsigned long long* bar = (unsigned long long*)(s + 128); if (t == 0) tl::mbar_init(bar, 64); tl::sync_threads();
  tl::cp_async<4>(&s[t], &A[t]); tl::cp_async_mbar_arrive(bar); tl::mbar_wait(bar, 0); A[t] = s[t ^ 1];
