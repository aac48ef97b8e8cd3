/* Enough of CUDA for loops.cu to be compiled as C++ and run on the host: blocks have one thread and
   run one after the other. The arithmetic is that of the device; what runs at the same time is not
   tested here. */
#include <cmath>
#include <cstdint>
using namespace std;

#define __global__
#define __device__
#define __shared__ static thread_local
#define __align__(n) alignas(n)

struct Place { int64_t x; };
static thread_local Place threadIdx = {0}, blockIdx = {0}, gridDim = {1};

static inline void __syncthreads() {}
static inline double __shfl_down_sync(unsigned, double, int) { return 0.0; }
static inline unsigned __activemask() { return 1u; }
static inline unsigned __match_any_sync(unsigned, int) { return 1u; }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __ffs(unsigned x) { return __builtin_ffs((int)x); }
static inline long long __double2ll_rn(double x) { return llrint(x); }
template <typename T> static inline T atomicAdd(T *at, T value) { T old = *at; *at += value; return old; }
