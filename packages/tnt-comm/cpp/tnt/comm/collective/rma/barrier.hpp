#pragma once

#include "tnt/comm/collective/rma/rma_operation.hpp"

namespace tnt::comm {

/// Barrier by dissemination: the fingerprint check that every call begins with, and
/// nothing else. ceil(log2 n) rounds, one message of 16 bytes per rank in each.
class RmaBarrier final : public RmaOperation {
 public:
  using RmaOperation::RmaOperation;

 protected:
  void copy_in(std::uint64_t) override {}
  const Schedule& schedule_of(std::uint64_t) const override { return nothing_; }
  void copy_out(std::uint64_t) override {}

 private:
  Schedule nothing_;
};

}  // namespace tnt::comm
