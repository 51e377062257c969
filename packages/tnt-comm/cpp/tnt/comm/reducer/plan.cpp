#include "tnt/comm/reducer/plan.hpp"

#include <algorithm>
#include <map>
#include <sstream>
#include <string_view>
#include <utility>

namespace tnt::comm {
namespace {

std::string without_line_ends(std::string name) {
  std::replace(name.begin(), name.end(), '\n', ' ');
  return name;
}

}  // namespace

FusionPlan::FusionPlan(std::vector<TensorSpec> tensors, std::size_t threshold_bytes,
                       std::optional<DType> wire_dtype)
    : tensors_(std::move(tensors)), threshold_bytes_(threshold_bytes), wire_dtype_(wire_dtype) {
  if (wire_dtype && *wire_dtype != DType::float16 && *wire_dtype != DType::bfloat16) {
    throw UsageError("`wire_dtype` must be float16 or bfloat16. Received: wire_dtype='",
                     name_of(*wire_dtype), "'.");
  }
  std::size_t num_bytes = 0;
  for (const TensorSpec& tensor : tensors_) {
    const std::string what = text("Tensor '", tensor.name, "'");
    num_bytes += bytes_in_memory(tensor.num_elements, size_of(tensor.dtype), what);
    bytes_in_memory(num_bytes, 1, "A FusionPlan");
  }
  std::map<DType, std::size_t> open;  // index of the open bucket of each dtype
  for (std::size_t id = tensors_.size(); id-- > 0;) {
    const TensorSpec& tensor = tensors_[id];
    const auto found = open.find(tensor.dtype);
    const bool fits =
        found != open.end() &&
        buckets_[found->second].num_elements * size_of(tensor.dtype) < threshold_bytes_;
    if (!fits) {
      open[tensor.dtype] = buckets_.size();
      const bool is_compressed = wire_dtype && tensor.dtype == DType::float32;
      buckets_.push_back({.dtype = tensor.dtype,
                          .tensor_ids = {},
                          .offsets = {},
                          .wire_dtype = is_compressed ? *wire_dtype : tensor.dtype});
    }
    Bucket& bucket = buckets_[open[tensor.dtype]];
    bucket.tensor_ids.push_back(id);
    bucket.offsets.push_back(bucket.num_elements);
    bucket.num_elements += tensor.num_elements;
  }
}

std::string describe(const FusionPlan& plan) {
  std::ostringstream stream;
  const std::string_view wire = plan.wire_dtype() ? name_of(*plan.wire_dtype()) : "none";
  stream << "a fusion threshold of " << plan.threshold_bytes() << " bytes\n";
  stream << "the wire dtype " << wire << "\n";
  for (std::size_t id = 0; id < plan.tensors().size(); ++id) {
    const TensorSpec& tensor = plan.tensors()[id];
    stream << "tensor " << id << " '" << without_line_ends(tensor.name) << "' ("
           << name_of(tensor.dtype) << ", " << tensor.num_elements << " elements)\n";
  }
  return stream.str();
}

std::string label_of_bucket(std::size_t bucket, const std::string& reducer_name) {
  return text("bucket ", bucket, " of '", reducer_name, "'");
}

std::string listed_tensors(const std::vector<std::string>& names) {
  return listed(names.size(), 4, [&](std::size_t i) { return text("'", names[i], "'"); });
}

std::string describe_bucket(const FusionPlan& plan, std::size_t bucket,
                            const std::string& reducer_name) {
  std::vector<std::string> names;
  for (const std::size_t id : plan.buckets()[bucket].tensor_ids) {
    names.push_back(plan.tensors()[id].name);
  }
  return text(label_of_bucket(bucket, reducer_name), " (", listed_tensors(names), ")");
}

}  // namespace tnt::comm
