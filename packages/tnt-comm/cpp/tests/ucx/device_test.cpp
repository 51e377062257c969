#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ucx_device_pair.hpp"

namespace tnt::comm {
namespace {

using tests::kQueue;
using tests::kSegment;

class UcxDevices : public tests::UcxDevicePair {};

TEST_F(UcxDevices, SendALateNotificationInTheNextMessage) {
  write(0, 16, 1);
  notify_later(0);
  EXPECT_EQ(num_messages(), 0U);
  write(64, 8, 2);
  notify(1);
  EXPECT_EQ(num_messages(), 1U);
  await(1);
  EXPECT_TRUE(is_notified(0));
  EXPECT_TRUE(has(0, 16, 1));
  EXPECT_TRUE(has(64, 8, 2));
}

TEST_F(UcxDevices, SendALateNotificationWithALongPiece) {
  write(0, 16, 1);
  notify_later(0);
  write(1024, 100'000, 2);
  notify(1);
  EXPECT_EQ(num_messages(), 1U);
  await(1);
  EXPECT_TRUE(is_notified(0));
  EXPECT_TRUE(has(0, 16, 1));
  EXPECT_TRUE(has(1024, 100'000, 2));
}

// The last part of a row has its data in the row.
TEST_F(UcxDevices, KeepALateNotificationUntilItsQueueIsFlushed) {
  write(0, 16, 1);
  notify_later(0);
  sender().flush(kQueue + 1);
  EXPECT_EQ(num_messages(), 0U);
  EXPECT_EQ(sender().num_queued(kQueue), 1U);
  sender().flush(kQueue);
  EXPECT_EQ(num_messages(), 1U);
  EXPECT_EQ(sender().num_queued(kQueue), 0U);
  await(0);
  EXPECT_TRUE(has(0, 16, 1));
  sender().flush(kQueue);
  EXPECT_EQ(num_messages(), 1U);
}

TEST_F(UcxDevices, SendALateNotificationWhenItsQueueIsDrained) {
  notify_later(0);
  EXPECT_EQ(sender().drain(kQueue), QueueState::idle);
  await(0);
}

TEST_F(UcxDevices, DoNotKeepALongPiece) {
  write(0, 4096, 1);
  notify_later(0);
  EXPECT_EQ(num_messages(), 1U);
  await(0);
  EXPECT_TRUE(has(0, 4096, 1));
}

TEST_F(UcxDevices, SendWhatWaitsForAnotherQueueFirst) {
  write(0, 16, 1, kQueue);
  notify_later(0, kQueue);
  notify(1, kQueue + 1);
  EXPECT_EQ(num_messages(), 2U);
  EXPECT_EQ(sender().num_queued(kQueue), 0U);
  await(1);
  EXPECT_TRUE(is_notified(0));
  EXPECT_TRUE(has(0, 16, 1));
}

// A short piece without a notification behind it waits as well, and is copied when the next comes.
TEST_F(UcxDevices, SendShortPiecesTogether) {
  write(0, 8, 1);
  write(64, 8, 2);
  write(128, 8, 3);
  EXPECT_EQ(num_messages(), 0U);
  notify(0);
  EXPECT_EQ(num_messages(), 1U);
  await(0);
  for (const int value : {1, 2, 3}) {
    EXPECT_TRUE(has(64 * static_cast<std::size_t>(value - 1), 8, value));
  }
}

TEST_F(UcxDevices, SendManyLateNotificationsInMessagesOfLimitedSize) {
  constexpr std::size_t kMany = 100;
  for (std::size_t slot = 0; slot < kMany; ++slot) {
    write(64 * slot, 64, static_cast<int>(slot));
    notify_later(slot);
  }
  sender().flush(kQueue);
  EXPECT_LT(num_messages(), kMany / 2);
  EXPECT_LE(fake_.most_header, 512U);
  for (std::size_t slot = 0; slot < kMany; ++slot) {
    await(slot);
    EXPECT_TRUE(has(64 * slot, 64, static_cast<int>(slot)));
  }
  EXPECT_EQ(sender().num_queued(kQueue), 0U);
}

// Rows, long pieces, and notifications of both kinds, in whatever order UCX delivers them.
TEST_F(UcxDevices, ShowNoNotificationBeforeItsDataWhenMessagesOvertakeEachOther) {
  fake_.turns_order = true;
  constexpr std::size_t kSteps = 200;
  constexpr std::size_t kStride = 4096;
  for (std::size_t begin = 0; begin < kSteps; begin += 20) {
    fake_.is_held = true;
    for (std::size_t step = begin; step < begin + 20; ++step) {
      const std::size_t length = step % 3 == 0 ? kStride : 16;
      write(step * kStride, length, static_cast<int>(step % 200));
      if (step % 2 == 0) {
        notify_later(step);
      } else {
        notify(step);
      }
    }
    sender().flush(kQueue);
    fake_.is_held = false;
    for (std::size_t step = begin; step < begin + 20; ++step) {
      await(step);
      EXPECT_TRUE(has(step * kStride, 16, static_cast<int>(step % 200))) << step;
    }
  }
}

TEST_F(UcxDevices, PutWhatIsRedirectedThereAndNotIntoTheSegment) {
  std::vector<std::byte> target(200'000);
  ASSERT_TRUE(devices_[1]->redirect(kSegment, 1000, target.size(), target.data()));
  write(1000, 150'000, 1);
  write(151'000, 50'000, 2);
  write(201'000, 100, 3);
  notify(0);
  await(0);
  EXPECT_EQ(target.front(), std::byte{1});
  EXPECT_EQ(target[149'999], std::byte{1});
  EXPECT_EQ(target[150'000], std::byte{2});
  EXPECT_EQ(target.back(), std::byte{2});
  EXPECT_TRUE(has(1000, 200'000, 0));
  EXPECT_TRUE(has(201'000, 100, 3));
  devices_[1]->end_redirect(kSegment, 1000);
  write(1000, 150'000, 4);
  notify(1);
  await(1);
  EXPECT_TRUE(has(1000, 150'000, 4));
  EXPECT_EQ(target.front(), std::byte{1});
}

// A part that says that more bytes follow than there are, as an unknown process could send it.
TEST_F(UcxDevices, ReadNothingBeyondAMessage) {
  const ucx::Functions functions = tests::FakeUcx::library().functions;
  std::string row(100, '\0');
  row[1] = static_cast<char>(kSegment);
  row[3] = static_cast<char>(200);
  for (int worker = 1; worker < 100; ++worker) {
    ucx::EndpointParameters parameters{};
    parameters.address = reinterpret_cast<const ucx::Address*>(&worker);
    ucx::Endpoint endpoint = nullptr;
    functions.ep_create(nullptr, &parameters, &endpoint);
    for (std::size_t size = 0; size <= row.size(); ++size) {
      functions.am_send_nbx(endpoint, 1, row.data(), size, nullptr, 0, nullptr);
    }
  }
  notify(0);
  await(0);
}

}  // namespace
}  // namespace tnt::comm
