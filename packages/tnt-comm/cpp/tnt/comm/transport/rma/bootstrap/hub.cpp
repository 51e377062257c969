#include "tnt/comm/transport/rma/bootstrap/bootstrap.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <list>
#include <optional>
#include <utility>

#include "tnt/comm/base/start_wait.hpp"
#include "tnt/comm/transport/rma/bootstrap/signed_connection.hpp"
#include "tnt/comm/transport/rma/sockets.hpp"

namespace tnt::comm {
namespace {

constexpr std::size_t kMostRecordBytes = 64 * 1024;
constexpr double kProofTimeS = 10;        // for a connection to prove that it is of the job
constexpr double kLeastProofTimeS = 0.1;  // also where descriptors are rare
constexpr double kLastWordsTimeS = 1;     // to tell why it fails

// Names of hosts often mean their loopback address on the host itself. An address that this host
// does not have may be translated on the way, to that of the interface.
SocketAddress address_to_listen(const BootstrapPlace& place) {
  const std::string& host = place.rendezvous.host;
  const std::vector<SocketAddress> addresses = addresses_of(host);
  for (const SocketAddress& address : addresses) {
    const bool is_meant = host == "localhost" || host == address.host();
    const bool is_reached = !address.is_loopback() || (is_meant && !place.has_other_hosts);
    const bool is_here = place.interface.empty() || interface_with(address);
    if (is_reached && is_here) return address.with_port(place.rendezvous.port);
  }
  if (!place.interface.empty()) {
    return find_interface(place.interface).address.with_port(place.rendezvous.port);
  }
  if (addresses.empty()) {
    throw Error(ErrorKind::comm, "rank 0: the host of ", shown(place.rendezvous),
                " is not known here. Use the address of this host that the"
                " others reach.");
  }
  throw Error(ErrorKind::comm, "rank 0: ", shown(place.rendezvous), " is ", addresses[0].host(),
              " on its own host, which other hosts cannot reach. Use the address of the"
              " network, or set TNT_INTERFACE, the network interface to listen on.");
}

/// Rank 0, to which all others connect.
class Hub final : public Bootstrap {
 public:
  Hub(BootstrapPlace place, const Deadline& deadline)
      : place_(std::move(place)),
        deadline_(deadline),
        address_(address_to_listen(place_)),
        listener_(TcpSocket::bound_to(address_)),
        ranks_(static_cast<std::size_t>(place_.size)) {
    if (!listener_.is_open() || ::listen(listener_.descriptor(), SOMAXCONN) != 0) {
      throw Error(ErrorKind::comm, why_not_bound(errno));
    }
    interface_ = interface_of(place_, address_);
  }

  const Interface& interface() const override { return interface_; }

  std::vector<std::string> exchange(const std::string& own_record) override {
    records_.assign(static_cast<std::size_t>(place_.size), std::nullopt);
    records_[0] = own_record;
    try {
      const Clock::time_point begin = Clock::now();
      bool has_reported = false;
      for (take_records(); !missing().empty(); take_records()) {
        if (deadline_.is_over()) throw Error(ErrorKind::timeout, absence());
        if (!has_reported && seconds_since(begin) > place_.stall_report_s) {
          has_reported = true;
          log_warning(0, "has waited ", place_.stall_report_s, " s for ", names_of_ranks(missing()),
                      " to come to ", shown(place_.rendezvous), ".", places_of(missing()), " ",
                      remedy_for_absent_ranks("Have all ranks been started?"), " [stall]");
        }
        check_interrupt();
        serve(kLookMs);
      }
      send_table();
    } catch (...) {
      tell_failure(Error::current());
      throw;
    }
    std::vector<std::string> result;
    for (auto& record : records_) result.push_back(std::move(*record));
    return result;
  }

 private:
  /// Somebody who has connected: a rank if its proof was right.
  struct Guest {
    explicit Guest(TcpSocket accepted)
        : connection(std::move(accepted)),
          stream(connection.descriptor(), SignedConnection::End::hub),
          number(random_bytes(kNumberBytes)),
          address(SocketAddress::of(connection.descriptor(), ::getpeername).host()) {
      stream.send_raw(kMagic);
      stream.send_raw(number);
    }

    TcpSocket connection;
    SignedConnection stream;
    std::string number;
    std::string address;
    Clock::time_point begin = Clock::now();
    std::optional<int> rank;
    bool is_open = true;
  };

  std::string why_not_bound(int error) const {
    if (error == EADDRNOTAVAIL) {
      return text("rank 0 is on a host without the address of ", shown(place_.rendezvous), " (",
                  address_.host(), "). It must name the host of rank 0.");
    }
    return text("rank 0 cannot listen at ", shown(place_.rendezvous), ": ",
                reason_of(error, address_),
                error == EADDRINUSE ? ". Does another job use this port?" : ".");
  }

  // Lets all connections go on, and waits up to `longest_ms` for one that can.
  void serve(int longest_ms) {
    std::vector<pollfd> descriptors{{listener_.descriptor(), POLLIN, 0}};
    for (const Guest& guest : guests_) {
      const short events = guest.stream.has_output() ? POLLIN | POLLOUT : POLLIN;
      descriptors.push_back({guest.connection.descriptor(), events, 0});
    }
    ::poll(descriptors.data(), descriptors.size(), longest_ms);
    std::size_t index = 1;
    for (Guest& guest : guests_) {
      const bool is_ready = descriptors[index++].revents != 0;
      if (is_ready) guest.is_open = guest.stream.advance();
      if (!guest.rank) greet(guest);
    }
    guests_.remove_if([](const Guest& guest) { return !guest.rank && !guest.is_open; });
    accept_some();
  }

  void accept_some() {
    for (int i = 0; i < kMostAtOnce; ++i) {
      TcpSocket accepted = listener_.accept();
      if (!accepted.is_open()) {
        if (!has_made_room(errno)) return;
        continue;
      }
      accepted.send_without_delay();
      // Those of this job that have just come are among them.
      if (num_strangers() >= kMostStrangers + ranks_.size()) guests_.erase(oldest_stranger());
      guests_.emplace_back(std::move(accepted));
      guests_.back().stream.advance();
    }
  }

  // Whether an unknown process was dropped for the sake of others, where descriptors are used up.
  bool has_made_room(int error) {
    if (error != EMFILE && error != ENFILE) return false;
    const auto oldest = oldest_stranger();
    if (oldest == guests_.end() || seconds_since(oldest->begin) < kLeastProofTimeS) return false;
    if (num_dropped_++ == 0) {
      log_warning(0, "has no file descriptors left for connections to ", shown(place_.rendezvous),
                  ", and closes the oldest ones that have not proved that they know this job's"
                  " secret, the first from ",
                  oldest->address,
                  ". Raise the limit of open files (ulimit -n). [too-many-connections]");
    }
    guests_.erase(oldest);
    return true;
  }

  std::size_t num_strangers() const {
    return static_cast<std::size_t>(std::count_if(guests_.begin(), guests_.end(),
                                                  [](const Guest& guest) { return !guest.rank; }));
  }

  std::list<Guest>::iterator oldest_stranger() {
    return std::find_if(guests_.begin(), guests_.end(),
                        [](const Guest& guest) { return !guest.rank; });
  }

  // Looks at the proof of somebody who has connected, when it is there.
  void greet(Guest& guest) {
    const auto bytes =
        guest.stream.take_raw(kMagic.size() + kNumberBytes + kRankLetters + kProofBytes);
    if (!bytes) {
      if (seconds_since(guest.begin) > kProofTimeS) refuse(guest);
      return;
    }
    std::string_view rest(*bytes);
    const auto next = [&](std::size_t count) {
      const std::string_view result = rest.substr(0, count);
      rest.remove_prefix(count);
      return result;
    };
    const std::string_view magic = next(kMagic.size());
    const std::string numbers = guest.number + std::string(next(kNumberBytes));
    const std::string_view rank = next(kRankLetters);
    if (magic != kMagic || !are_equal(proof_of(place_, "member", numbers, rank), rest)) {
      guest.stream.send_raw(kRefusal);
      guest.stream.advance();
      refuse(guest);
      return;
    }
    admit(guest, std::stoi(std::string(rank)), numbers);
  }

  void admit(Guest& guest, int rank, const std::string& numbers) {
    guest.stream.send_raw(
        bytes_of(proof_of(place_, "hub", numbers, in_letters(rank, kRankLetters))));
    guest.stream.set_key(key_of(place_, numbers));
    if (rank < 1 || rank >= place_.size || at(ranks_, rank) != nullptr) {
      guest.stream.send(failure_message(Error(ErrorKind::usage, "rank ", rank, " (", guest.address,
                                              ") has joined twice at ", shown(place_.rendezvous),
                                              ". Each process needs its own TNT_RANK.")));
      guest.stream.advance();
      guest.is_open = false;
      return;
    }
    guest.rank = rank;
    at(ranks_, rank) = &guest;
    guest.stream.advance();
  }

  void refuse(Guest& guest) {
    guest.is_open = false;
    if (num_refused_++ >= kMostReports) return;
    log_warning(
        0, "a connection from ", guest.address, " to ", shown(place_.rendezvous),
        " did not prove that it knows this job's secret, and was refused. [connection-refused]");
  }

  void take_records() {
    for (int rank = 1; rank < place_.size; ++rank) {
      Guest* guest = at(ranks_, rank);
      std::optional<std::string>& record = at(records_, rank);
      if (guest == nullptr) continue;
      if (!record) {
        if (const auto message = guest->stream.take(kMostRecordBytes)) record = message->substr(1);
      }
      if (!guest->is_open) throw_lost(*guest);
    }
  }

  // That one may have given up since another one does not come.
  [[noreturn]] void throw_lost(const Guest& guest) const {
    std::vector<int> others = missing();
    std::erase(others, *guest.rank);
    throw Error(ErrorKind::peer_lost, "rank 0 has lost rank ", *guest.rank, " (", guest.address,
                ") while the job started. See the output of that rank.",
                others.empty() ? "" : text(" Not there yet: ", names_of_ranks(others), "."))
        .caused_by(*guest.rank);
  }

  void send_table() {
    const std::string table = table_of(records_);
    const Digest digest = sha256(table);
    for (Guest* guest : ranks_) {
      if (guest == nullptr) continue;  // rank 0 itself
      guest->stream.send(table, bytes_of(digest));
      guest->is_open = guest->stream.advance() || guest->is_open;
    }
    const auto is_unsent = [](const Guest* guest) {
      return guest != nullptr && guest->stream.has_output();
    };
    while (std::any_of(ranks_.begin(), ranks_.end(), is_unsent)) {
      for (const Guest* guest : ranks_) {
        if (guest != nullptr && !guest->is_open && is_unsent(guest)) throw_lost(*guest);
      }
      if (deadline_.is_over()) {
        const auto late =
            ranks_where(place_.size, [&](int rank) { return is_unsent(at(ranks_, rank)); });
        throw Error(ErrorKind::timeout, "rank 0 could not tell ", names_of_ranks(late), " within ",
                    deadline_.timeout_s(), " s who is there. Are they stopped?");
      }
      check_interrupt();
      serve(kLookMs);
    }
  }

  std::vector<int> missing() const {
    return ranks_where(place_.size, [this](int rank) { return !at(records_, rank); });
  }

  std::string absence() const {
    return text("rank 0 waited ", deadline_.timeout_s(), " s at ", shown(place_.rendezvous),
                " for ", names_of_ranks(missing()),
                ", which did not join. Have all ranks been started, with this TNT_RENDEZVOUS, and"
                " can their hosts reach it?");
  }

  // So that all ranks end with the reason.
  void tell_failure(const Error& error) noexcept {
    try {
      for (Guest* guest : ranks_) {
        if (guest != nullptr) guest->stream.send(failure_message(error));
      }
      const Deadline deadline(kLastWordsTimeS);
      const auto is_unsent = [](const Guest* guest) {
        return guest != nullptr && guest->is_open && guest->stream.has_output();
      };
      do {
        for (Guest* guest : ranks_) {
          if (guest != nullptr && guest->is_open) guest->is_open = guest->stream.advance();
        }
      } while (std::any_of(ranks_.begin(), ranks_.end(), is_unsent) && !deadline.is_over());
    } catch (...) {
      return;  // the others find the connection closed
    }
  }

  static constexpr std::size_t kMostStrangers = 256;
  static constexpr int kMostReports = 5;
  static constexpr int kMostAtOnce = 64;

  BootstrapPlace place_;
  Deadline deadline_;
  SocketAddress address_;
  TcpSocket listener_;
  Interface interface_;
  std::list<Guest> guests_;
  std::vector<Guest*> ranks_;  // of guests_; null for those that have not come
  std::vector<std::optional<std::string>> records_;
  int num_refused_ = 0;
  int num_dropped_ = 0;  // for want of descriptors
};

}  // namespace

std::unique_ptr<Bootstrap> listen_as_hub(BootstrapPlace place, const Deadline& deadline) {
  return std::make_unique<Hub>(std::move(place), deadline);
}

}  // namespace tnt::comm
