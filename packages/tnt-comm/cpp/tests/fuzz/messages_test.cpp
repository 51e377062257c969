// What other ranks say first, and what they say apart from data.

#include <memory>
#include <optional>

#include "fuzz.hpp"
#include "scripted_gaspi.hpp"
#include "scripted_segment.hpp"
#include "tnt/comm/collective/abort_state.hpp"
#include "tnt/comm/collective/rendezvous.hpp"
#include "tnt/comm/collective/rma/fingerprint_check.hpp"
#include "tnt/comm/transport/local/solo_transport.hpp"
#include "tnt/comm/transport/rma/mailbox.hpp"
#include "tnt/comm/transport/rma/rank_location.hpp"
#include "tnt/comm/transport/rma/rma_core.hpp"

namespace tnt::comm::tests {
namespace {

constexpr int kSize = 3;

TEST(Fuzz, AgreementOnACall) {
  SoloTransport transport;
  fuzz([&](Mutator& mutator) {
    const std::size_t health_bytes = AbortState::num_bytes(kSize);
    const auto segment = std::make_shared<ScriptedSegment>(
        1, kSize, health_bytes + FingerprintCheck::memory_needs(kSize).num_bytes);
    const AbortState abort_state("fuzz", {0, 1, 2}, segment, transport, nullptr);
    FingerprintCheck fingerprint_check(segment, health_bytes, 1);
    Descriptor descriptor;
    descriptor.kind = CollectiveKind::allgather;
    descriptor.count = 100;
    fingerprint_check.begin(descriptor);
    CallNote note;
    note.give(" from train.py:1");
    for (int look = 0;
         look < 8 && !fingerprint_check.is_refused() && !fingerprint_check.is_reached(); ++look) {
      mutator.change(segment->local() + health_bytes,
                     FingerprintCheck::memory_needs(kSize).num_bytes);
      segment->set_notification(static_cast<int>(mutator.below(kSize)), 1 + mutator.below(6),
                                mutator.number());
      fingerprint_check.advance(note);
    }
    std::vector<int> missing;
    fingerprint_check.append_missing(missing);
    for (const int member : missing) EXPECT_LT(static_cast<unsigned>(member), unsigned{kSize});
    if (fingerprint_check.is_refused())
      throw mismatch_error(abort_state, fingerprint_check.calls());
  });
}

TEST(Fuzz, ReportOfARankThatGaveUp) {
  SoloTransport transport;
  fuzz([&](Mutator& mutator) {
    const auto segment = std::make_shared<ScriptedSegment>(1, kSize, AbortState::num_bytes(kSize));
    const AbortState abort_state("fuzz", {0, 1, 2}, segment, transport, nullptr);
    // Without a zero at its end.
    if (mutator.below(2) == 0) std::memset(segment->local(), 'x', AbortState::num_bytes(kSize));
    mutator.change(segment->local(), AbortState::num_bytes(kSize));
    segment->set_notification(2, AbortState::kNotification, mutator.number());
    abort_state.check_failures_of_others();
  });
}

TEST(Fuzz, NoticesOfCreations) {
  fuzz([](Mutator& mutator) {
    const auto segment = std::make_shared<ScriptedSegment>(1, kSize, Rendezvous::num_bytes(kSize));
    Rendezvous creations(segment, 0, 0);
    if (mutator.below(2) == 0) std::memset(segment->local(), 'x', Rendezvous::num_bytes(kSize));
    mutator.change(segment->local(), Rendezvous::num_bytes(kSize));
    for (NotificationId id = 0; id < Rendezvous::kNumNotifications; ++id) {
      segment->set_notification(2, id, mutator.number());
    }
    const std::optional<std::string> texts[] = {creations.awaited_by(2), creations.refusal()};
    for (const auto& one : texts) EXPECT_LE(one.value_or("").size(), 1008U);
  });
}

RankLocation place_of_rank(int rank) {
  Environment environment;
  environment.size = environment.num_nodes = kSize;
  environment.node_rank = rank;
  environment.job_id = "abcdef12";
  return location_of(environment, "fabric");
}

TEST(Fuzz, HelloOfARank) {
  fuzz([](Mutator& mutator) {
    std::vector<RankLocation> locations;
    for (int rank = 0; rank < kSize; ++rank) {
      ControlMessage hello = hello_of(place_of_rank(rank));
      if (mutator.below(2) == 0) {
        mutator.change(reinterpret_cast<std::byte*>(&hello), sizeof hello);
        mutator.change(reinterpret_cast<std::byte*>(&hello), offsetof(ControlMessage, letters));
      }
      locations.push_back(location_in(hello));
    }
    const std::vector<int> nodes = nodes_of(locations);
    EXPECT_EQ(nodes, (std::vector<int>{0, 1, 2}));
  });
}

ControlMessage message_of_kind(std::size_t kind) {
  switch (kind) {
    case 0:
      return {ControlKind::creating, "x", {4096, 3, 2}};
    case 1:
      return {ControlKind::ready, "x", {3}};
    case 2:
      return {ControlKind::released, "x"};
    default:
      return hello_of(place_of_rank(1));
  }
}

TEST(Fuzz, MessagesInTheMailbox) {
  fuzz([](Mutator& mutator) {
    ScriptedGaspi gaspi(kSize);
    PeerTable peers(0, kSize);
    DataQueues queues(gaspi, [] {});
    SegmentNotices rendezvous;
    Mailbox mailbox(gaspi, 0, peers, queues, [&](int from, const ControlMessage& message) {
      if (message.kind == ControlKind::hello) {
        const RankLocation location = location_in(message);
        peers.joined(from, location.host, location.pid);
      } else if (message.kind == ControlKind::leaving) {
        peers.left(from, static_cast<PeerState>(message.numbers[0]), message.text());
      } else {
        rendezvous.note(from, message);
      }
    });
    for (int look = 0; look < 4; ++look) {
      for (std::size_t location = 0; location < gaspi.memory().size() / sizeof(ControlMessage);
           ++location) {
        ControlMessage message = message_of_kind(mutator.below(4));
        mutator.change(reinterpret_cast<std::byte*>(&message), sizeof message);
        mutator.change(reinterpret_cast<std::byte*>(&message), offsetof(ControlMessage, letters));
        std::memcpy(gaspi.memory().data() + location * sizeof message, &message, sizeof message);
      }
      for (std::size_t slot = 0; slot < 3 * kSize; ++slot) {
        const auto few = static_cast<std::uint32_t>(mutator.below(9));
        const auto word = static_cast<std::uint32_t>(mutator.number());
        gaspi.set_notification(slot, mutator.below(2) == 0 ? 0x80000000U | few : word);
      }
      mailbox.send(1, {ControlKind::released, "x"});
      mailbox.exchange();
    }
    const PeerStatus status = peers.status_of(1);
    EXPECT_LE(status.state, PeerState::dead);
    rendezvous.said("x", 1);
  });
}

}  // namespace
}  // namespace tnt::comm::tests
