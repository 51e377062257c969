#pragma once

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "tnt/comm/base/waiting.hpp"
#include "tnt/comm/collective/device/ipc_memory.hpp"
#include "tnt/comm/communicator/group.hpp"

namespace tnt::comm {

/// What the members say of a step on the way to sums between GPUs: each gives a text, or what keeps
/// it from it. All go the same way, since all know the first obstacle.
class Agreement {
 public:
  /// Collective. `offer` gives this rank's text; what it throws is an obstacle.
  template <typename Function>
  Agreement(Group& group, Function&& offer) {
    std::string own;
    try {
      own = text(kOffer, offer());
    } catch (const std::exception& error) {
      own = error.what();
      while (own.ends_with('.')) own.pop_back();  // it becomes a part of sentences
      if (own.empty()) own = "unknown";
    }
    full_fence();  // what all have done before is seen by all after it
    texts_ = group.gather_texts(own, "the memory of GPUs");
    full_fence();
    for (std::size_t member = 0; member < texts_.size() && obstacle_.empty(); ++member) {
      if (texts_[member].front() != kOffer) {
        obstacle_ = text("rank ", group.ranks()[member], ": ", texts_[member]);
      }
      texts_[member].erase(0, 1);
    }
  }
  const std::string& obstacle() const { return obstacle_; }
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  static constexpr char kOffer = '=';  // before a text that is no obstacle

  std::vector<std::string> texts_;
  std::string obstacle_;
};

/// Makes something on the GPU of this rank. That this fails, mostly for want of memory, is an
/// obstacle which the program can remove: so it is told at once.
template <typename Function>
void make_or_warn(const Group& group, Function&& make) {
  try {
    make();
  } catch (const Error& error) {
    log_warning(group.abort_state()->world_rank(), error.what(),
                " Gradients are not summed by the GPUs. [gpu-memory-short]");
    throw;
  }
}

/// Ranks of this host, which are neighbours in the group, and the first of them.
int num_on_host(const Group& group);
int first_on_host(const Group& group);

/// The memory of `num_bytes` of the GPUs of this host's ranks, of which each has opened that of the
/// others; null, and why, if it cannot be had. `gpus`: PCI addresses, by member. Collective among
/// the group, blocking.
std::shared_ptr<IpcMemory> open_memory(Group& group, const std::vector<std::string>& gpus,
                                       const std::shared_ptr<Device>& device, std::size_t num_bytes,
                                       std::string& obstacle);

/// Lets go of the others' memory. When it returns, they have let go of this rank's, which may be
/// freed. Collective, blocking.
void close_memory(Group& group, IpcMemory& memory);

}  // namespace tnt::comm
