#include "tnt/comm/collective/descriptor.hpp"

#include "tnt/comm/base/text.hpp"

namespace tnt::comm {

std::string_view name_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::barrier:
      return "barrier";
    case CollectiveKind::allreduce:
      return "allreduce";
    case CollectiveKind::broadcast:
      return "broadcast";
    case CollectiveKind::allgather:
      return "allgather";
    case CollectiveKind::reduce_scatter:
      return "reduce_scatter";
    case CollectiveKind::creation:
      return "creation";
  }
  return "unknown";
}

namespace {

bool may_counts_differ(CollectiveKind kind) {
  return kind == CollectiveKind::allgather || kind == CollectiveKind::creation;
}

}  // namespace

bool Descriptor::matches(const Descriptor& other) const {
  return call_index == other.call_index && kind == other.kind && dtype == other.dtype &&
         op == other.op && root == other.root && algorithm == other.algorithm &&
         shape == other.shape && label == other.label &&
         (may_counts_differ(kind) || count == other.count);
}

std::uint64_t Descriptor::fingerprint() const {
  // FNV-1a, word by word.
  std::uint64_t fingerprint = 14695981039346656037ULL;
  const std::uint64_t compared_count = may_counts_differ(kind) ? 0 : count;
  for (const std::uint64_t word :
       {call_index, static_cast<std::uint64_t>(kind), static_cast<std::uint64_t>(dtype),
        static_cast<std::uint64_t>(op), static_cast<std::uint64_t>(root),
        static_cast<std::uint64_t>(algorithm), compared_count, shape, label}) {
    fingerprint = (fingerprint ^ word) * 1099511628211ULL;
    fingerprint ^= fingerprint >> 32;  // or the high bits of a word would be lost
  }
  return fingerprint;
}

std::string Descriptor::describe() const {
  const std::string_view name = name_of(kind);
  switch (kind) {
    case CollectiveKind::barrier:
      return "barrier()";
    case CollectiveKind::creation:
      return "creation";  // the note says of what
    case CollectiveKind::allreduce:
    case CollectiveKind::reduce_scatter:
      return text(name, "(", comm::name_of(dtype), ", ", count, " elements, ", comm::name_of(op),
                  algorithm == AllreduceAlgorithm::automatic
                      ? ""
                      : text(", TNT_ALLREDUCE_ALGORITHM=", comm::name_of(algorithm)),
                  ")");
    case CollectiveKind::broadcast:
      return text(name, "(", comm::name_of(dtype), ", ", count, " elements, root ", root, ")");
    case CollectiveKind::allgather:
      return text(name, "(", comm::name_of(dtype), ", ", count, " elements, row shape id ",
                  shape & 0xffffU, ")");
  }
  return std::string(name);
}

}  // namespace tnt::comm
