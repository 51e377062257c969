#include "tnt/keras/packed_tensor.hpp"

#include <cstring>

#include "tnt/keras/tensorflow_string.hpp"

namespace tnt::keras {
namespace {

class Writer {
 public:
  void add(uint64_t number) { add(&number, sizeof number); }
  void add(const void* data, size_t num_bytes) {
    const auto* begin = static_cast<const std::byte*>(data);
    if (num_bytes > 0) bytes_.insert(bytes_.end(), begin, begin + num_bytes);
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::span<const std::byte> take(size_t num_bytes) {
    if (num_bytes > bytes_.size()) {
      throw KernelError(TF_INTERNAL, "a tensor that came from another rank is cut short");
    }
    const auto taken = bytes_.first(num_bytes);
    bytes_ = bytes_.subspan(num_bytes);
    return taken;
  }
  uint64_t number() {
    uint64_t number = 0;
    std::memcpy(&number, take(sizeof number).data(), sizeof number);
    return number;
  }
  std::span<const std::byte> rest() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

std::span<const TensorFlowString> strings_of(const TF_Tensor* tensor) {
  return {static_cast<const TensorFlowString*>(TF_TensorData(tensor)), num_elements(tensor)};
}

}  // namespace

std::vector<std::byte> pack(const TF_Tensor* tensor) {
  Writer writer;
  writer.add(static_cast<uint64_t>(TF_NumDims(tensor)));
  for (const int64_t size : shape(tensor)) writer.add(static_cast<uint64_t>(size));
  if (TF_TensorType(tensor) != TF_STRING) {
    writer.add(TF_TensorData(tensor), TF_TensorByteSize(tensor));
    return writer.take();
  }
  for (const TensorFlowString& string : strings_of(tensor)) writer.add(text_of(string).size());
  for (const TensorFlowString& string : strings_of(tensor)) {
    const std::string_view text = text_of(string);
    writer.add(text.data(), text.size());
  }
  return writer.take();
}

PackedTensor::PackedTensor(std::span<const std::byte> bytes, TF_DataType dtype) : dtype_(dtype) {
  Reader reader(bytes);
  const uint64_t num_dims = reader.number();
  for (uint64_t i = 0; i < num_dims; ++i) {
    dims_.push_back(static_cast<int64_t>(reader.number()));
    num_elements_ *= static_cast<size_t>(dims_.back());
  }
  elements_ = reader.rest();
}

void PackedTensor::copy_to(TF_Tensor* target, size_t begin) const {
  Reader reader(elements_);
  if (dtype_ != TF_STRING) {
    const size_t size = TF_DataTypeSize(dtype_);
    const auto elements = reader.take(num_elements_ * size);
    if (elements.empty()) return;
    auto* data = static_cast<std::byte*>(TF_TensorData(target));
    std::memcpy(data + begin * size, elements.data(), elements.size());
    return;
  }
  std::vector<size_t> lengths(num_elements_);
  for (size_t& length : lengths) length = reader.number();
  auto* strings = static_cast<TensorFlowString*>(TF_TensorData(target)) + begin;
  for (size_t i = 0; i < num_elements_; ++i) {
    const auto text = reader.take(lengths[i]);
    fill(strings[i], {reinterpret_cast<const char*>(text.data()), text.size()});
  }
}

}  // namespace tnt::keras
