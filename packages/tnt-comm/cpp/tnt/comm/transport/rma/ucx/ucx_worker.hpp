#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tnt/comm/transport/rma/ucx/ucx_library.hpp"
#include "tnt/comm/transport/rma/ucx/ucx_network.hpp"
#include "tnt/comm/transport/rma/ucx/ucx_segments.hpp"

namespace tnt::comm {

/// UCX in this process: one context, one worker, and an endpoint for each other rank, over which
/// active messages and RDMA puts go. A message is a header and up to kMostBytes of data, and
/// arrives whole.
///
/// UCX is told that only one thread calls it at a time (SERIALIZED), for which there is a mutex
/// here; both handlers run while it is held, and so does what is called when a request is complete.
///
/// Threads: all functions may be called from any thread, but none from a handler.
class UcxWorker {
 public:
  /// What arrives: the header, and data that is valid until the handler returns.
  using OnMessage = std::function<void(std::string_view header, std::string_view data)>;
  /// An endpoint has failed, by which its rank is gone: nothing more can be sent to it.
  using OnFailure = std::function<void(int rank)>;

  static constexpr std::size_t kMostBytes = UcxNetwork::kMostMessageBytes;

  /// CommError.
  UcxWorker(UcxLibrary library, int rank, int size, const UcxNetwork& network);
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

  /// The same, but the message leaves only when all that was put to that rank before is in its
  /// memory.
  void send_behind_puts(int rank, const Message& message);

  /// Data of this rank that goes into a segment of another; `source` must stay as it is until
  /// `on_done` is called, as `on_sent` of a message.
  struct Put {
    std::string_view source;
    ucx::Memory source_memory = nullptr;  ///< if it is registered
    SegmentId to_segment = 0;
    std::uint64_t to = 0;  ///< offset in it
    ucx::SentHandler on_done = nullptr;
    void* user_data = nullptr;
  };
  /// False, and nothing has happened, if the segment's key is not known or the rank is gone.
  bool put(int rank, const Put& put);

  /// For the handler of messages.
  RemoteKeys& remote_keys() { return keys_; }

  /// See UcxContext.
  std::optional<RegisteredMemory> register_memory(void* address, std::size_t num_bytes);
  void deregister(const RegisteredMemory& memory);

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

  /// A put or a flush that is not complete.
  struct Operation {
    Peer* peer;
    Message message;  ///< behind the flush; of a put only what is called at its end
    bool is_flush;
    std::list<Operation>::iterator self = {};
  };

  void open();
  void set_receive_handler();
  void send_locked(Peer& peer, const Message& message);
  Operation& begin(Peer& peer, const Message& message, bool is_flush);
  void take_returned(Operation& operation, void* returned);
  void complete(Operation& operation, ucx::Status status);
  void send_ready();
  bool progress_locked();
  void fail(Peer& peer);
  void close_failed();
  void abandon_operations();
  static ucx::RequestParameters parameters_of(Operation& operation);

  UcxLibrary library_;
  const ucx::Functions& functions_ = library_.functions;
  int rank_;
  UcxContext context_;
  ucx::Worker worker_ = nullptr;
  int descriptor_ = -1;
  OnMessage on_message_;
  OnFailure on_failure_;
  std::mutex mutex_;
  std::vector<Peer> peers_;
  std::vector<ucx::Endpoint> to_close_;  // which their own handlers must not do
  RemoteKeys keys_{functions_};
  std::list<Operation> operations_;  // which UCX has
  std::list<Operation> ready_;       // complete flushes whose message is to be sent
};

}  // namespace tnt::comm
