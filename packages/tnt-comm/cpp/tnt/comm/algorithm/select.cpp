#include "tnt/comm/algorithm/select.hpp"

#include <limits>

#include "tnt/comm/algorithm/allreduce.hpp"
#include "tnt/comm/algorithm/slices.hpp"

namespace tnt::comm {
namespace {

std::shared_ptr<WindowedOperation> make_direct(const AllreduceRequest& request) {
  return std::make_shared<DirectAllreduce>(request.health, request.stall_report_s, request.state,
                                           request.descriptor, request.in, request.out);
}

std::shared_ptr<WindowedOperation> make_sliced(const AllreduceRequest& request) {
  return std::make_shared<SlicedAllreduce>(request.health, request.stall_report_s, request.state,
                                           request.descriptor, request.in, request.out,
                                           request.blocks);
}

std::size_t no_limit(int) {
  return std::numeric_limits<std::size_t>::max();
}

constexpr AllreduceChoice kChoices[] = {
    {"direct", direct_allreduce_limit_bytes, make_direct},
    {"sliced", no_limit, make_sliced},
};

}  // namespace

const AllreduceChoice& choose_allreduce(std::size_t num_bytes, int num_members) {
  const AllreduceChoice* choice = kChoices;
  while (num_bytes > choice->limit_bytes(num_members)) ++choice;
  return *choice;
}

}  // namespace tnt::comm
