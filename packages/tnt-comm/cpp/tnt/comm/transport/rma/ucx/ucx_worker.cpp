#include "tnt/comm/transport/rma/ucx/ucx_worker.hpp"

#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <utility>

#include "tnt/comm/base/error.hpp"

namespace tnt::comm {
namespace {

constexpr unsigned kMessageId = 1;
constexpr std::size_t kHeaderRoom = 4096;
// The interface of UCX that is asked for: that of the oldest version.
constexpr unsigned kApiMajor = 1;
constexpr unsigned kApiMinor = 13;

// A setting, unless the user has made it.
void set(const ucx::Functions& functions, ucx::Config* config, const char* name,
         const std::string& value) {
  if (std::getenv(text("UCX_", name).c_str()) != nullptr) return;
  functions.config_modify(config, name, value.c_str());  // unknown ones are no matter
}

// UCX does not use bridges of virtual machines and containers, unless it is told to.
bool is_bridge(const std::string& device) {
  return !device.empty() && ::access(text("/sys/class/net/", device, "/bridge").c_str(), F_OK) == 0;
}

}  // namespace

UcxWorker::UcxWorker(UcxLibrary library, int rank, int size, const std::string& device)
    : library_(std::move(library)), rank_(rank), peers_(static_cast<std::size_t>(size)) {
  open(device, size);
}

UcxWorker::~UcxWorker() {
  if (worker_ != nullptr) functions_.worker_destroy(worker_);
  if (context_ != nullptr) functions_.cleanup(context_);
}

void UcxWorker::require(ucx::Status status, const char* what) const {
  if (status == ucx::kOk) return;
  throw Error(ErrorKind::comm, text("rank ", rank_, ": ", what, " of UCX ", library_.version,
                                    " returned ", int{status}, " (", meaning_of_ucx(status), ")."));
}

void UcxWorker::open(const std::string& device, int size) {
  ucx::Config* read = nullptr;
  require(functions_.config_read(nullptr, nullptr, &read), "ucp_config_read");
  const std::unique_ptr<ucx::Config, void (*)(ucx::Config*)> config(read,
                                                                    functions_.config_release);
  set(functions_, read, "TLS", "tcp");
  // One with the same address on all hosts, as of containers, would be chosen otherwise.
  if (!device.empty()) set(functions_, read, "NET_DEVICES", device);
  set(functions_, read, "MAX_EAGER_RAILS", "1");
  // 1.13 takes no settings of a transport here, and warns of them; before 1.16 bridges are used.
  if (library_.minor >= 14) {
    set(functions_, read, "TCP_CONN_NB", "y");  // else connecting to one blocks all
    set(functions_, read, "TCP_RX_SEG_SIZE", text(kMostBytes + kHeaderRoom));  // of whole messages
  }
  if (library_.minor >= 16 && is_bridge(device)) set(functions_, read, "TCP_BRIDGE_ENABLE", "y");

  ucx::ContextParameters context{};
  context.mask = ucx::ContextParameters::kHasFeatures | ucx::ContextParameters::kHasNumEndpoints;
  context.features = ucx::ContextParameters::kActiveMessages | ucx::ContextParameters::kWakeup;
  context.num_endpoints = static_cast<std::size_t>(size);
  require(functions_.init_version(kApiMajor, kApiMinor, &context, read, &context_), "ucp_init");

  ucx::WorkerParameters worker{};
  worker.mask = ucx::WorkerParameters::kHasThreadMode;
  worker.thread_mode = ucx::WorkerParameters::kSerialized;
  require(functions_.worker_create(context_, &worker, &worker_), "ucp_worker_create");
  require(functions_.worker_get_efd(worker_, &descriptor_), "ucp_worker_get_efd");

  // Before others know the address: some versions crash by messages without a handler.
  ucx::HandlerParameters handler{};
  handler.mask = ucx::HandlerParameters::kHasId | ucx::HandlerParameters::kHasFlags |
                 ucx::HandlerParameters::kHasFunction | ucx::HandlerParameters::kHasArgument;
  handler.id = kMessageId;
  handler.flags = ucx::HandlerParameters::kWholeMessages;
  handler.argument = this;
  handler.function = [](void* self, const void* header, std::size_t header_bytes, void* data,
                        std::size_t num_bytes, const ucx::ReceiveParameters* parameters) {
    // No rank sends such: what stands there are not the data.
    if ((parameters->attributes & ucx::ReceiveParameters::kIsRendezvous) != 0) return ucx::kOk;
    static_cast<UcxWorker*>(self)->on_message_({static_cast<const char*>(header), header_bytes},
                                               {static_cast<const char*>(data), num_bytes});
    return ucx::kOk;
  };
  require(functions_.worker_set_am_recv_handler(worker_, &handler),
          "ucp_worker_set_am_recv_handler");
}

void UcxWorker::set_handlers(OnMessage on_message, OnFailure on_failure) {
  const std::lock_guard lock(mutex_);
  on_message_ = std::move(on_message);
  on_failure_ = std::move(on_failure);
}

std::string UcxWorker::address() const {
  ucx::Address* address = nullptr;
  std::size_t num_bytes = 0;
  require(functions_.worker_get_address(worker_, &address, &num_bytes), "ucp_worker_get_address");
  std::string result(reinterpret_cast<const char*>(address), num_bytes);
  functions_.worker_release_address(worker_, address);
  return result;
}

void UcxWorker::connect(int rank, const std::string& address) {
  const std::lock_guard lock(mutex_);
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  peer.worker = this;
  peer.rank = rank;
  ucx::EndpointParameters parameters{};
  parameters.mask = ucx::EndpointParameters::kHasAddress | ucx::EndpointParameters::kHasErrorMode |
                    ucx::EndpointParameters::kHasErrorHandler;
  parameters.address = reinterpret_cast<const ucx::Address*>(address.data());
  parameters.error_mode = ucx::EndpointParameters::kErrorsOfPeer;
  parameters.on_error = [](void* failed, ucx::Endpoint /*endpoint*/, ucx::Status /*status*/) {
    auto& failed_peer = *static_cast<Peer*>(failed);
    failed_peer.worker->fail(failed_peer);
  };
  parameters.on_error_argument = &peer;
  require(functions_.ep_create(worker_, &parameters, &peer.endpoint), "ucp_ep_create");
}

void UcxWorker::send(int rank, const Message& message) {
  ucx::RequestParameters parameters{};
  parameters.mask = ucx::RequestParameters::kHasCallback | ucx::RequestParameters::kHasUserData |
                    ucx::RequestParameters::kHasFlags | ucx::RequestParameters::kCompletesFast;
  parameters.flags = ucx::RequestParameters::kEager;
  parameters.on_sent = message.on_sent;
  parameters.user_data = message.user_data;
  const std::lock_guard lock(mutex_);
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  void* request = nullptr;
  if (!peer.has_failed && peer.endpoint != nullptr) {
    request = functions_.am_send_nbx(peer.endpoint, kMessageId, message.header.data(),
                                     message.header.size(), message.data.data(),
                                     message.data.size(), &parameters);
  }
  const bool has_failed = ucx::is_error(request);
  if (has_failed) fail(peer);
  if (request == nullptr || has_failed) message.on_sent(nullptr, ucx::kOk, message.user_data);
}

bool UcxWorker::try_progress() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  return lock.owns_lock() && progress_locked();
}

bool UcxWorker::progress() {
  const std::lock_guard lock(mutex_);
  return progress_locked();
}

bool UcxWorker::progress_locked() {
  const bool has_done_anything = functions_.worker_progress(worker_) != 0;
  if (!to_close_.empty()) close_failed();
  return has_done_anything;
}

bool UcxWorker::arm() {
  const std::lock_guard lock(mutex_);
  return functions_.worker_arm(worker_) != ucx::kBusy;
}

void UcxWorker::fail(Peer& peer) {
  if (peer.has_failed) return;
  peer.has_failed = true;
  to_close_.push_back(peer.endpoint);
  on_failure_(peer.rank);
}

void UcxWorker::close_failed() {
  ucx::RequestParameters parameters{};
  parameters.mask = ucx::RequestParameters::kHasFlags;
  parameters.flags = ucx::RequestParameters::kForceClose;
  for (const ucx::Endpoint endpoint : std::exchange(to_close_, {})) {
    void* request = functions_.ep_close_nbx(endpoint, &parameters);
    if (request != nullptr && !ucx::is_error(request)) functions_.request_free(request);
  }
}

}  // namespace tnt::comm
