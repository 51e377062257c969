#pragma once

#include "tnt/comm/algorithm/windowed_operation.hpp"

namespace tnt::comm {

/// Barrier: one step without data. It is complete when all have posted.
class Barrier final : public WindowedOperation {
 public:
  using WindowedOperation::WindowedOperation;

 protected:
  void copy_in(std::uint64_t, std::byte*) override {}
  void copy_out(std::uint64_t) override {}
};

}  // namespace tnt::comm
