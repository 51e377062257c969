#pragma once

#include "tnt/comm/collective/staged_operation.hpp"

namespace tnt::comm {

/// Barrier: one block without data. It is complete when all have posted.
class Barrier final : public StagedOperation {
 public:
  using StagedOperation::StagedOperation;

 protected:
  void copy_in(std::uint64_t, std::byte*) override {}
  void copy_out(std::uint64_t) override {}
};

}  // namespace tnt::comm
