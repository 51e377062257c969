#pragma once

#include "tnt/comm/transport/rma/socket_address.hpp"

namespace tnt::comm {

/// A TCP socket that does not block; closed at the end.
class TcpSocket {
 public:
  TcpSocket() = default;
  explicit TcpSocket(int descriptor) : descriptor_(descriptor) {}
  ~TcpSocket() { close(); }
  TcpSocket(TcpSocket&& other) noexcept;
  TcpSocket& operator=(TcpSocket&& other) noexcept;

  /// Bound to an address of this host. A port on which connections have just ended can be had, as
  /// GPI-2 does. Without a descriptor if it cannot be had, for which errno tells the reason.
  static TcpSocket bound_to(const SocketAddress& address);

  /// Begins to connect, and does not wait for it. Without a descriptor if that fails
  /// at once, which errno then tells.
  static TcpSocket connecting_to(const SocketAddress& address);

  /// The next of those that have connected to this one, which listens; without a descriptor if
  /// there is none now.
  TcpSocket accept() const;

  /// What is written is sent at once, however short it is.
  void send_without_delay() const;

  bool is_open() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }
  void close();

 private:
  int descriptor_ = -1;
};

/// What has become of a connection that was begun: 0 or an errno. Once poll() has
/// found it writable.
int error_of_connection(int descriptor);

}  // namespace tnt::comm
