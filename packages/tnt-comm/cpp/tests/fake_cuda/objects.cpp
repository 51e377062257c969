#include "fake_cuda/objects.hpp"

#include <algorithm>

namespace tnt::comm::tests::fake_cuda {

Objects& objects() {
  static auto* objects = new Objects();  // threads of a process that ends may still look
  return *objects;
}

std::vector<std::shared_ptr<Stream>> DeviceContext::open_streams() const {
  std::vector<std::shared_ptr<Stream>> result;
  for (const auto& stream : streams) {
    if (!stream->is_closed()) result.push_back(stream);
  }
  return result;
}

void DeviceContext::wait_for_all_streams() {
  std::vector<std::shared_ptr<Stream>> waited_for;
  {
    const std::lock_guard lock(mutex);
    waited_for = open_streams();
  }
  for (const auto& stream : waited_for) stream->wait();
}

MarkUse Objects::make_mark(int num_streams) {
  const std::lock_guard lock(mutex);
  const auto free = std::ranges::find_if(marks, &Mark::is_free);
  Mark& mark = free != marks.end() ? *free : marks.emplace_back();
  mark.begin(num_streams);
  return MarkUse(&mark);
}

Stream* Objects::make_stream(DeviceContext& context) {
  unsigned number = 0;
  {
    const std::lock_guard lock(mutex);
    number = ++num_streams_made;
  }
  const std::lock_guard lock(context.mutex);
  std::erase_if(context.streams, [](const auto& stream) { return stream->has_ended(); });
  context.streams.push_back(std::make_shared<Stream>(context.ordinal, seed * 7919U + number));
  Stream* stream = context.streams.back().get();
  if (context.gate) {
    const MarkUse passed = make_mark(1);
    context.gate->push_mark(passed);
    stream->push_wait(passed);
  }
  ++num_streams;
  return stream;
}

}  // namespace tnt::comm::tests::fake_cuda
