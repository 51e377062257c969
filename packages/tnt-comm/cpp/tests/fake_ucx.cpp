#include "fake_ucx.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace tnt::comm::tests {
namespace {

struct Message {
  std::string header;
  std::string data;
};

struct FakeWorker {
  int number = 0;
  int event = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  ucx::HandlerParameters handler{};
  std::vector<Message> come;
  ~FakeWorker() { ::close(event); }
};

FakeUcx* current = nullptr;
std::mutex mutex;
std::map<int, std::unique_ptr<FakeWorker>> workers;
int num_workers = 0;

bool is_held(const FakeWorker& worker) {
  return current->is_held || current->held_worker == worker.number;
}

FakeWorker& worker_of(ucx::Worker worker) {
  return *reinterpret_cast<FakeWorker*>(worker);
}

ucx::Status create_worker(ucx::Context, const ucx::WorkerParameters*, ucx::Worker* worker) {
  const std::lock_guard lock(mutex);
  auto made = std::make_unique<FakeWorker>();
  made->number = ++num_workers;
  *worker = reinterpret_cast<ucx::Worker>(made.get());
  workers[made->number] = std::move(made);
  return ucx::kOk;
}

void destroy_worker(ucx::Worker worker) {
  const std::lock_guard lock(mutex);
  workers.erase(worker_of(worker).number);
}

// An address is a worker's number, and so is an endpoint.
ucx::Status address_of(ucx::Worker worker, ucx::Address** address, std::size_t* num_bytes) {
  *num_bytes = sizeof(int);
  *address = reinterpret_cast<ucx::Address*>(&worker_of(worker).number);
  return ucx::kOk;
}

ucx::Status create_endpoint(ucx::Worker, const ucx::EndpointParameters* parameters,
                            ucx::Endpoint* endpoint) {
  int number = 0;
  std::memcpy(&number, parameters->address, sizeof number);
  *endpoint = reinterpret_cast<ucx::Endpoint>(static_cast<std::intptr_t>(number));
  return ucx::kOk;
}

void* send(ucx::Endpoint endpoint, unsigned, const void* header, std::size_t header_bytes,
           const void* data, std::size_t num_bytes, const ucx::RequestParameters*) {
  const std::lock_guard lock(mutex);
  const auto found = workers.find(static_cast<int>(reinterpret_cast<std::intptr_t>(endpoint)));
  if (found == workers.end()) return nullptr;
  FakeWorker& worker = *found->second;
  worker.come.push_back({{static_cast<const char*>(header), header_bytes},
                         {static_cast<const char*>(data), num_bytes}});
  if (++current->num_sent == current->first_held) current->held_worker = worker.number;
  current->most_header = std::max(current->most_header.load(), header_bytes);
  const std::uint64_t one = 1;
  static_cast<void>(::write(worker.event, &one, sizeof one));
  return nullptr;
}

unsigned progress(ucx::Worker worker) {
  std::vector<Message> come;
  FakeWorker& self = worker_of(worker);
  {
    const std::lock_guard lock(mutex);
    if (is_held(self)) return 0;
    come = std::exchange(self.come, {});
  }
  if (current->turns_order) std::reverse(come.begin(), come.end());
  for (Message& message : come) {
    const ucx::ReceiveParameters parameters{};
    self.handler.function(self.handler.argument, message.header.data(), message.header.size(),
                          message.data.data(), message.data.size(), &parameters);
  }
  return static_cast<unsigned>(come.size());
}

ucx::Status arm(ucx::Worker worker) {
  const std::lock_guard lock(mutex);
  FakeWorker& self = worker_of(worker);
  if (!self.come.empty() && !is_held(self)) return ucx::kBusy;
  std::uint64_t count = 0;
  static_cast<void>(::read(self.event, &count, sizeof count));
  return ucx::kOk;
}

}  // namespace

FakeUcx::FakeUcx() {
  current = this;
}

FakeUcx::~FakeUcx() {
  current = nullptr;
}

UcxLibrary FakeUcx::library() {
  UcxLibrary library;
  library.path = "a fake one";
  library.version = "1.22.0";
  library.minor = 22;
  ucx::Functions& functions = library.functions;
  functions.config_read = [](const char*, const char*, ucx::Config**) { return ucx::kOk; };
  functions.config_modify = [](ucx::Config*, const char*, const char*) { return ucx::kOk; };
  functions.config_release = [](ucx::Config*) {};
  functions.init_version = [](unsigned, unsigned, const ucx::ContextParameters*, const ucx::Config*,
                              ucx::Context*) { return ucx::kOk; };
  functions.cleanup = [](ucx::Context) {};
  functions.worker_create = create_worker;
  functions.worker_destroy = destroy_worker;
  functions.worker_get_address = address_of;
  functions.worker_release_address = [](ucx::Worker, ucx::Address*) {};
  functions.worker_get_efd = [](ucx::Worker worker, int* descriptor) {
    *descriptor = worker_of(worker).event;
    return ucx::kOk;
  };
  functions.worker_arm = arm;
  functions.worker_progress = progress;
  functions.worker_set_am_recv_handler = [](ucx::Worker worker,
                                            const ucx::HandlerParameters* parameters) {
    worker_of(worker).handler = *parameters;
    return ucx::kOk;
  };
  functions.ep_create = create_endpoint;
  functions.ep_close_nbx = [](ucx::Endpoint, const ucx::RequestParameters*) -> void* {
    return nullptr;
  };
  functions.am_send_nbx = send;
  functions.request_free = [](void*) {};
  return library;
}

}  // namespace tnt::comm::tests
