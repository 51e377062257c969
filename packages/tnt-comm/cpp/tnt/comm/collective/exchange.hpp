#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include "tnt/comm/base/error.hpp"
#include "tnt/comm/collective/allgather.hpp"
#include "tnt/comm/collective/alltoall.hpp"
#include "tnt/comm/collective/broadcast.hpp"
#include "tnt/comm/collective/collectives.hpp"

namespace tnt::comm {

/// Any collective but an allreduce. These exist once for all kinds of memory: each is a work over
/// the *exchange* of a World, by which a block gets from member to member:
///   - cut(longest): how many blocks there are, given the bytes of the longest part;
///   - share(): bytes of a part that a block takes at most, a multiple of 64;
///   - outgoing(member, index), send(member, index, num_bytes): where what the member is to get
///     is put, and how much that is. In that order, and in copy_in() for every member;
///   - incoming(member, index): where what the member has sent can be read, in copy_out();
///   - rank(), size(), descriptor(), and, from on_match() on, count_of(member).
/// World::Exchange takes from everybody to everybody, World::Tree from the root to all,
/// World::Barrier has no data, and World::Call<Work> is the operation.
template <typename World>
std::shared_ptr<CollectiveOperation> make_exchange(std::shared_ptr<typename World::Stream> stream,
                                                   const Descriptor& descriptor,
                                                   CallArrays arrays) {
  using Exchange = typename World::Exchange;
  const auto make = [&]<typename Work>(std::type_identity<Work>) {
    return std::make_shared<typename World::template Call<Work>>(std::move(stream), descriptor,
                                                                 std::move(arrays));
  };
  switch (descriptor.kind) {
    case CollectiveKind::barrier:
      return make(std::type_identity<typename World::Barrier>());
    case CollectiveKind::broadcast:
      return make(std::type_identity<Broadcast<typename World::Tree>>());
    case CollectiveKind::allgather:
    case CollectiveKind::gather:
    case CollectiveKind::creation:
      return make(std::type_identity<Allgather<Exchange>>());
    case CollectiveKind::reduce_scatter:
      return make(std::type_identity<ReduceScatter<Exchange>>());
    case CollectiveKind::alltoall:
    case CollectiveKind::scatter:
      return make(std::type_identity<Alltoall<Exchange>>());
    case CollectiveKind::allreduce:
      break;
  }
  throw Error(ErrorKind::comm, "this kind of collective is not known");
}

}  // namespace tnt::comm
