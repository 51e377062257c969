// TntUniformRows, ...: the rows of a stateless draw that one replica needs, and no others.
//
// They are bit for bit those of TensorFlow's own draw of the whole shape, with the generator that
// TensorFlow uses on CPUs. The result is flat. The operations are functions of their inputs, so
// TensorFlow may compute one of constant inputs when it optimises the graph.
#include <string>
#include <vector>

#include "tnt/keras/distributions.hpp"
#include "tnt/keras/in_parts.hpp"
#include "tnt/keras/kernel.hpp"
#include "tnt/keras/ops.hpp"
#include "tnt/keras/row_cut.hpp"

namespace tnt::keras {
namespace {

// Inputs: first those of TensorFlow's operation.
constexpr int kShape = 0;
constexpr int kKey = 1;
constexpr int kCounter = 2;
constexpr int kAlgorithm = 3;
constexpr int kLow = 4;
constexpr int kHigh = 5;

// Of TensorFlow's algorithms.
constexpr int32_t kPhilox = 1;
constexpr int32_t kWhatSuitsTheDevice = 3;

/// So many numbers take several times as long as it takes to start a thread.
constexpr int64_t kMinNumbersOfThread = 1 << 15;

KernelError wrong_input(const std::string& message) {
  return KernelError(TF_INVALID_ARGUMENT, message);
}

/// The elements of an input, at least `min_size` of them.
template <typename T>
std::vector<T> elements(TF_OpKernelContext* context, int index, size_t min_size) {
  TensorPtr tensor = input(context, index);
  const size_t size = TF_TensorByteSize(tensor.get()) / sizeof(T);
  if (size < min_size) {
    throw wrong_input("input " + std::to_string(index) + " must have at least " +
                      std::to_string(min_size) + " elements, not " + std::to_string(size));
  }
  const T* data = static_cast<const T*>(TF_TensorData(tensor.get()));
  return std::vector<T>(data, data + size);
}

template <typename T>
T scalar(TF_OpKernelContext* context, int index) {
  return elements<T>(context, index, 1).front();
}

std::vector<int64_t> dims_input(TF_OpKernelContext* context, int index) {
  if (TF_TensorType(input(context, index).get()) == TF_INT64) {
    return elements<int64_t>(context, index, 0);
  }
  const std::vector<int32_t> dims = elements<int32_t>(context, index, 0);
  return std::vector<int64_t>(dims.begin(), dims.end());
}

int64_t product(const std::vector<int64_t>& factors) {
  int64_t result = 1;
  for (int64_t factor : factors) {
    if (factor < 0) throw wrong_input("sizes must not be negative: " + std::to_string(factor));
    if (__builtin_mul_overflow(result, factor, &result)) throw wrong_input("sizes are too large");
  }
  return result;
}

WordStream word_stream(TF_OpKernelContext* context) {
  const int32_t algorithm = scalar<int32_t>(context, kAlgorithm);
  if (algorithm != kPhilox && algorithm != kWhatSuitsTheDevice) {
    throw wrong_input("Unsupported algorithm id: " + std::to_string(algorithm));
  }
  const std::vector<uint64_t> counter = elements<uint64_t>(context, kCounter, 2);
  return WordStream(scalar<uint64_t>(context, kKey), {counter[0], counter[1]});
}

/// How a distribution is made when an operation runs: from nothing, unless it has bounds.
template <typename Distribution>
struct Maker {
  static constexpr int kNumInputs = 4;

  static Distribution make(TF_OpKernelContext*) { return {}; }
};

template <typename Number>
struct Maker<UniformInt<Number>> {
  static constexpr int kNumInputs = 6;

  static UniformInt<Number> make(TF_OpKernelContext* context) {
    const Number low = scalar<Number>(context, kLow);
    const Number high = scalar<Number>(context, kHigh);
    if (low >= high) {
      throw wrong_input("Need minval < maxval, got " + std::to_string(low) +
                        " >= " + std::to_string(high));
    }
    return {low, high};
  }
};

/// The numbers of a draw at any positions. Keeps the last group, since short rows share groups.
template <typename Distribution>
class Numbers {
 public:
  using Number = typename Distribution::Number;

  Numbers(const Distribution& distribution, const WordStream& words)
      : distribution_(distribution), words_(words) {}

  /// Writes `count` numbers from `position` on.
  void copy(int64_t position, int64_t count, Number* out) {
    const int64_t end = position + count;
    int64_t group = position / kSize;
    if (position % kSize != 0) {
      const int64_t end_of_group = std::min((group + 1) * kSize, end);
      out = copy_of_group(group, position, end_of_group, out);
      ++group;
    }
    for (; (group + 1) * kSize <= end; ++group) {
      const Group<Number> numbers = distribution_.numbers(words_, static_cast<uint64_t>(group));
      out = std::copy(numbers.begin(), numbers.end(), out);
    }
    if (group * kSize < end) copy_of_group(group, group * kSize, end, out);
  }

 private:
  static constexpr int64_t kSize = kGroupSize<Number>;

  Number* copy_of_group(int64_t group, int64_t position, int64_t end, Number* out) {
    if (group != last_index_) {
      last_ = distribution_.numbers(words_, static_cast<uint64_t>(group));
      last_index_ = group;
    }
    const int64_t start = group * kSize;
    return std::copy(last_.data() + (position - start), last_.data() + (end - start), out);
  }

  const Distribution distribution_;
  const WordStream words_;
  int64_t last_index_ = -1;
  Group<Number> last_{};
};

template <typename Distribution, TF_DataType dtype>
class DrawRows {
 public:
  explicit DrawRows(TF_OpKernelConstruction* context)
      : first_(int_attribute(context, "first")),
        step_(int_attribute(context, "step")),
        max_threads_(int_attribute(context, "max_threads")) {}

  void compute(TF_OpKernelContext* context) const {
    const RowCut cut = row_cut(context);
    TensorPtr output = allocate_output(context, 0, dtype, {cut.size()});
    if (cut.size() == 0) return;
    auto* numbers = static_cast<Number*>(TF_TensorData(output.get()));
    const Numbers<Distribution> draw(Maker<Distribution>::make(context), word_stream(context));
    in_parts(cut.size(), kMinNumbersOfThread, max_threads_, [=](int64_t begin, int64_t end) {
      Numbers<Distribution> part = draw;
      cut.for_each_run(begin, end, [&](int64_t from, int64_t count, int64_t to) {
        part.copy(from, count, numbers + to);
      });
    });
  }

 private:
  using Number = typename Distribution::Number;

  RowCut row_cut(TF_OpKernelContext* context) const {
    constexpr int kLead = Maker<Distribution>::kNumInputs;
    const int64_t size = product(dims_input(context, kShape));
    const int64_t lead = scalar<int64_t>(context, kLead);
    const int64_t num_rows = scalar<int64_t>(context, kLead + 1);
    const int64_t total_rows = product({lead, num_rows});
    const int64_t row_size = total_rows == 0 ? 0 : size / total_rows;
    if (total_rows * row_size != size) {
      throw wrong_input(std::to_string(size) + " numbers are not " + std::to_string(lead) +
                        " times " + std::to_string(num_rows) + " rows");
    }
    return {lead, num_rows, row_size, first_, step_};
  }

  int64_t first_;
  int64_t step_;
  int64_t max_threads_;
};

void register_draw_op(const char* name, const char* dtypes, bool has_bounds) {
  std::vector<const char*> inputs = {"shape: Tshape", "key: uint64", "counter: uint64",
                                     "alg: int32"};
  if (has_bounds) inputs.insert(inputs.end(), {"minval: dtype", "maxval: dtype"});
  inputs.insert(inputs.end(), {"lead: int64", "num_rows: int64"});
  register_op(name, inputs, {"numbers: dtype"},
              {dtypes, "Tshape: {int32, int64}", "first: int >= 0", "step: int >= 1",
               "max_threads: int >= 1"});
}

template <template <typename> typename Distribution>
void register_real_draw(const char* name) {
  register_draw_op(name, "dtype: {half, bfloat16, float, double}", false);
  register_kernel<DrawRows<Distribution<Half>, TF_HALF>>(name, {{"dtype", TF_HALF}});
  register_kernel<DrawRows<Distribution<Bfloat16>, TF_BFLOAT16>>(name, {{"dtype", TF_BFLOAT16}});
  register_kernel<DrawRows<Distribution<float>, TF_FLOAT>>(name, {{"dtype", TF_FLOAT}});
  register_kernel<DrawRows<Distribution<double>, TF_DOUBLE>>(name, {{"dtype", TF_DOUBLE}});
}

template <template <typename> typename Distribution>
void register_int_kernels(const char* name) {
  register_kernel<DrawRows<Distribution<int32_t>, TF_INT32>>(name, {{"dtype", TF_INT32}});
  register_kernel<DrawRows<Distribution<int64_t>, TF_INT64>>(name, {{"dtype", TF_INT64}});
}

}  // namespace

void register_draw_ops() {
  register_real_draw<Uniform>("TntUniformRows");
  register_real_draw<Normal>("TntNormalRows");
  register_real_draw<TruncatedNormal>("TntTruncatedNormalRows");

  register_draw_op("TntUniformIntRows", "dtype: {int32, int64}", true);
  register_int_kernels<UniformInt>("TntUniformIntRows");

  const char* full = "TntUniformFullIntRows";
  register_draw_op(full, "dtype: {int32, int64, uint32, uint64}", false);
  register_int_kernels<UniformFullInt>(full);
  register_kernel<DrawRows<UniformFullInt<uint32_t>, TF_UINT32>>(full, {{"dtype", TF_UINT32}});
  register_kernel<DrawRows<UniformFullInt<uint64_t>, TF_UINT64>>(full, {{"dtype", TF_UINT64}});
}

}  // namespace tnt::keras
