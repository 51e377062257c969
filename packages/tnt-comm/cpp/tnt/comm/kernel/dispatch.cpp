#include "tnt/comm/kernel/table.hpp"

namespace tnt::comm {

const KernelTable& kernels() {
#ifdef TNT_COMM_HAS_AVX2
  static const KernelTable& chosen =
      __builtin_cpu_supports("avx2") ? avx2_kernels() : baseline_kernels();
  return chosen;
#else
  return baseline_kernels();
#endif
}

}  // namespace tnt::comm
