#include "fake_cuda/objects.hpp"

namespace tnt::comm::tests::fake_cuda {

Objects& objects() {
  static auto* objects = new Objects();  // threads of a process that ends may still look
  return *objects;
}

Mark& Objects::make_mark(int num_streams) {
  const std::lock_guard lock(mutex);
  return marks.emplace_back(num_streams);
}

Stream* Objects::make_stream(DeviceContext& context) {
  unsigned number = 0;
  {
    const std::lock_guard lock(mutex);
    number = ++num_streams_made;
  }
  const std::lock_guard lock(context.mutex);
  context.streams.push_back(std::make_unique<Stream>(context.ordinal, seed * 7919U + number));
  Stream* stream = context.streams.back().get();
  for (const Mark* barrier : context.barriers) stream->push_wait(*barrier);
  ++num_streams;
  return stream;
}

}  // namespace tnt::comm::tests::fake_cuda
