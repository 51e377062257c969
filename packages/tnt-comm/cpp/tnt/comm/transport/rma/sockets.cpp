#include "tnt/comm/transport/rma/sockets.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <memory>

#include "tnt/comm/base/error.hpp"

namespace tnt::comm {
namespace {

socklen_t bytes_of_family(int family) {
  return family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
}

std::vector<Interface> interfaces() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> list(first, ::freeifaddrs);
  std::vector<Interface> result;
  for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || (each->ifa_flags & IFF_UP) == 0) continue;
    const int family = each->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    result.push_back({each->ifa_name, {each->ifa_addr, bytes_of_family(family)}});
  }
  return result;
}

// The bytes of an address of either family; empty if it is none.
std::string bytes_of_address(const std::string& address) {
  std::array<char, sizeof(in6_addr)> bytes{};
  if (::inet_pton(AF_INET, address.c_str(), bytes.data()) == 1) return {bytes.data(), 4};
  if (::inet_pton(AF_INET6, address.c_str(), bytes.data()) == 1) return {bytes.data(), 16};
  return {};
}

bool has_first_bits(const std::string& bytes, const std::string& prefix, int num_bits) {
  if (bytes.size() != prefix.size()) return false;
  for (int bit = 0; bit < num_bits; ++bit) {
    const auto byte = static_cast<std::size_t>(bit / 8);
    const int mask = 0x80 >> (bit % 8);
    if ((bytes[byte] & mask) != (prefix[byte] & mask)) return false;
  }
  return true;
}

// Whether an address lies in a network such as "10.0.0.0/8", or is the one that is named.
bool is_in(const std::string& wanted, const SocketAddress& address) {
  const std::size_t slash = wanted.find('/');
  const std::string network = bytes_of_address(wanted.substr(0, slash));
  if (network.empty()) return false;
  int num_bits = static_cast<int>(8 * network.size());
  if (slash != std::string::npos) {
    const char* end = wanted.data() + wanted.size();
    const auto [stop, error] = std::from_chars(wanted.data() + slash + 1, end, num_bits);
    if (error != std::errc{} || stop != end || num_bits < 0 ||
        num_bits > static_cast<int>(8 * network.size())) {
      return false;
    }
  }
  return has_first_bits(bytes_of_address(address.host()), network, num_bits);
}

}  // namespace

std::vector<SocketAddress> addresses_of(const std::string& host, int family) {
  addrinfo hints{};
  hints.ai_family = family;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* first = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &first) != 0) return {};
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(first, ::freeaddrinfo);
  std::vector<SocketAddress> result;
  for (const addrinfo* each = first; each != nullptr; each = each->ai_next) {
    result.emplace_back(each->ai_addr, each->ai_addrlen);
  }
  return result;
}

Interface find_interface(const std::string& wanted) {
  const std::vector<Interface> all = interfaces();
  std::string shown;
  for (const Interface& each : all) {
    if (each.name == wanted || is_in(wanted, each.address)) return each;
    shown += text(shown.empty() ? "" : ", ", each.name, " (", each.address.host(), ")");
  }
  throw Error(ErrorKind::comm, "TNT_INTERFACE='", wanted,
              "' is not a network interface of this host, nor an"
              " address or a network of one. There are: ",
              shown, ".");
}

std::optional<Interface> interface_with(const SocketAddress& address) {
  for (const Interface& each : interfaces()) {
    if (each.address.host() == address.host()) return each;
  }
  return std::nullopt;
}

int error_of_connection(int descriptor) {
  int error = 0;
  socklen_t length = sizeof error;
  return ::getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}

}  // namespace tnt::comm
