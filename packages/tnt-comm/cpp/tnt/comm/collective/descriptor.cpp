#include "tnt/comm/collective/descriptor.hpp"

#include "tnt/comm/base/text.hpp"

namespace tnt::comm {

bool Descriptor::matches(const Descriptor& other) const {
  return call_index == other.call_index && kind == other.kind && dtype == other.dtype &&
         op == other.op && root == other.root && algorithm == other.algorithm &&
         shape == other.shape && label == other.label &&
         (traits_of(kind).takes_any_count || count == other.count);
}

std::uint64_t Descriptor::fingerprint() const {
  // FNV-1a, word by word.
  std::uint64_t fingerprint = 14695981039346656037ULL;
  const std::uint64_t compared_count = traits_of(kind).takes_any_count ? 0 : count;
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
  const CollectiveTraits& traits = traits_of(kind);
  if (kind == CollectiveKind::creation) return std::string(traits.name);  // the note says of what
  if (!traits.has_data) return text(traits.name, "()");
  std::string result = text(traits.name, "(", comm::name_of(dtype), ", ", count, " elements");
  if (traits.reduces) result += text(", ", comm::name_of(op));
  if (traits.has_root) result += text(", root ", root);
  if (traits.takes_any_count) result += text(", row shape id ", shape & 0xffffU);
  if (algorithm != AllreduceAlgorithm::automatic) {
    result += text(", TNT_ALLREDUCE_ALGORITHM=", comm::name_of(algorithm));
  }
  return result + ")";
}

}  // namespace tnt::comm
