#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "tnt/comm/transport/rma/ucx/ucx_library.hpp"

namespace tnt::comm {

/// UCX in this process: one context, one worker, and an endpoint for each other rank, over which
/// active messages go. A message is a header and up to kMostBytes of data, and arrives whole.
///
/// UCX is told that only one thread calls it at a time (SERIALIZED), for which there is a mutex
/// here; both handlers run while it is held.
///
/// Threads: all functions may be called from any thread, but none from a handler.
class UcxWorker {
 public:
  /// What arrives: the header, and data that is valid until the handler returns.
  using OnMessage = std::function<void(std::string_view header, std::string_view data)>;
  /// An endpoint has failed, by which its rank is gone: nothing more can be sent to it.
  using OnFailure = std::function<void(int rank)>;

  /// Of an eager message over TCP that goes in one piece.
  static constexpr std::size_t kMostBytes = 128 * 1024;

  /// `device`: the network interface, such as "eth0"; empty: UCX' choice. CommError.
  UcxWorker(UcxLibrary library, int rank, int size, const std::string& device);
  ~UcxWorker();
  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;

  const UcxLibrary& library() const { return library_; }

  /// Before anything is sent or received.
  void set_handlers(OnMessage on_message, OnFailure on_failure);

  /// Which others need to connect() to this rank.
  std::string address() const;
  void connect(int rank, const std::string& address);

  /// A message on its way; `header` and the data must stay until `on_sent` is called, once, by
  /// progress(), or by send() itself.
  struct Message {
    std::string_view header;
    std::string_view data;
    ucx::SentHandler on_sent = nullptr;
    void* user_data = nullptr;
  };
  /// What cannot be sent, since the rank is gone, counts as sent.
  void send(int rank, const Message& message);

  /// Lets messages go on; true if there was anything to do. Returns false at once if another thread
  /// does it already.
  bool try_progress();

  /// The same, and waits for the other thread.
  bool progress();

  /// Whether the descriptor will become readable with the next event: if not, there are
  /// some already.
  bool arm();
  int descriptor() const { return descriptor_; }

 private:
  struct Peer {
    UcxWorker* worker = nullptr;
    int rank = 0;
    ucx::Endpoint endpoint = nullptr;
    bool has_failed = false;
  };

  void open(const std::string& device, int size);
  void require(ucx::Status status, const char* what) const;
  bool progress_locked();
  void fail(Peer& peer);
  void close_failed();

  UcxLibrary library_;
  const ucx::Functions& functions_ = library_.functions;
  int rank_;
  ucx::Context context_ = nullptr;
  ucx::Worker worker_ = nullptr;
  int descriptor_ = -1;
  OnMessage on_message_;
  OnFailure on_failure_;
  std::mutex mutex_;
  std::vector<Peer> peers_;
  std::vector<ucx::Endpoint> to_close_;  // which their own handlers must not do
};

}  // namespace tnt::comm
