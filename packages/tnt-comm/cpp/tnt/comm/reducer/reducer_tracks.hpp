#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "tnt/comm/trace/monitor.hpp"

namespace tnt::comm {

/// Draws a bucket: the row is *ready* when its last tensor is packed, *started*
/// when the others have been told, *reduced* when the sum is there, and
/// *finished* when the last tensor was handed out.
class BucketTrack final : public Track {
 public:
  /// `label`: short; `title`: with all that the reader may want to know.
  BucketTrack(Timeline& timeline, const std::string& label, const std::string& title,
              std::size_t num_bytes, std::size_t num_tensors);

  void ready(std::uint64_t step);
  void post() override { timeline_.enter(row_, started_, step_); }
  void end(bool is_complete) override;
  void finish_tensor();
  NameId wait_name() const override { return wait_name_; }

 private:
  Timeline& timeline_;
  RowId row_;
  NameId ready_, started_, reduced_, finished_, failed_, wait_name_;
  std::size_t num_tensors_;
  std::atomic<std::size_t> num_finished_{0};  // tensors of the step
  std::uint64_t step_ = 0;
};

/// Draws the phase of each step in which the tensors of a reducer are started,
/// from the first start to the last. For gradients: backpropagation.
class PhaseTrack {
 public:
  PhaseTrack(Timeline& timeline, const std::string& phase, const std::string& reducer,
             std::size_t num_tensors);

  void begin_tensor(std::uint64_t step);
  void end_tensor();

 private:
  Timeline& timeline_;
  RowId row_;
  NameId name_;
  std::size_t num_tensors_;
  std::atomic<std::size_t> num_begun_{0};
  std::atomic<std::size_t> num_ended_{0};
};

}  // namespace tnt::comm
