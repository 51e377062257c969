// What is recorded and how it is written: buffer, timeline, JSON, parts.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "tnt/comm/base/error.hpp"
#include "tnt/comm/trace/timeline.hpp"
#include "tnt/comm/trace/trace_files.hpp"

namespace tnt::comm {
namespace {

TEST(EventBuffer, KeepsTheEventsOfAllThreadsEachInItsOrder) {
  EventBuffer buffer;
  constexpr std::uint32_t kNumThreads = 4;
  constexpr std::uint64_t kNumEvents = 20'000;  // several chunks
  std::vector<std::thread> threads;
  for (std::uint32_t row = 0; row < kNumThreads; ++row) {
    threads.emplace_back([&buffer, row] {
      for (std::uint64_t i = 0; i < kNumEvents; ++i) EXPECT_TRUE(buffer.add({0, i, row, 0, {}}));
    });
  }
  for (auto& thread : threads) thread.join();
  std::vector<std::uint64_t> next(kNumThreads);
  buffer.for_each([&](const Event& event) { EXPECT_EQ(event.value, next[event.row]++); });
  EXPECT_EQ(next, std::vector<std::uint64_t>(kNumThreads, kNumEvents));
  EXPECT_EQ(buffer.num_dropped(), 0U);
}

TEST(EventBuffer, DropsTheNewestWhenItIsFull) {
  EventBuffer buffer;
  for (std::size_t i = 0; i < EventBuffer::kCapacity; ++i) ASSERT_TRUE(buffer.add({.value = i}));
  for (std::size_t i = 0; i < 5; ++i) EXPECT_FALSE(buffer.add({}));
  EXPECT_EQ(buffer.num_dropped(), 5U);
  std::size_t num_kept = 0;
  buffer.for_each([&](const Event& event) { num_kept += event.value == num_kept; });
  EXPECT_EQ(num_kept, EventBuffer::kCapacity);
}

TEST(Json, TextsAreQuotedWhateverTheyHold) {
  EXPECT_EQ(quoted("a \"b\" \\"), R"("a \"b\" \\")");
  EXPECT_EQ(quoted("line\n\x01"), R"("line\u000a\u0001")");
  EXPECT_EQ(quoted("\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x99\x82"),
            "\"\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x99\x82\"");
  // A lone lead byte, an overlong slash, a surrogate, beyond Unicode, cut off.
  EXPECT_EQ(quoted("\xC3("), "\"?(\"");
  EXPECT_EQ(quoted("\xC0\xAF"), "\"??\"");
  EXPECT_EQ(quoted("\xED\xA0\x80"), "\"???\"");
  EXPECT_EQ(quoted("\xF4\x90\x80\x80"), "\"????\"");
  EXPECT_EQ(quoted("\xE2\x82"), "\"??\"");
}

std::vector<std::string> lines_with(const std::string& text, const std::string& part) {
  std::vector<std::string> result;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    if (line.find(part) != std::string::npos) result.push_back(line);
  }
  return result;
}

TEST(Render, SlicesEndWithTheirOwnEndAndOpenOnesAreMarked) {
  Timeline timeline(3);
  const RowId row = timeline.row_of_this_thread();
  const NameId outer = timeline.name("outer");
  const NameId inner = timeline.name("inner");
  timeline.record(EventKind::end, row, inner);  // never begun
  timeline.record(EventKind::begin, row, outer);
  timeline.record(EventKind::begin, row, inner);
  timeline.record(EventKind::end, row, outer);  // ends what is inside too
  timeline.record(EventKind::begin, row, inner);
  const std::string part = render_part(timeline, {.rank = 3, .size = 4, .host = "h"});
  EXPECT_EQ(lines_with(part, R"("name":"outer")").size(), 1U);
  const auto inner_lines = lines_with(part, R"("name":"inner")");
  ASSERT_EQ(inner_lines.size(), 2U);
  for (const std::string& line : inner_lines) {
    EXPECT_NE(line.find(R"("unfinished":true)"), std::string::npos) << line;
  }
  EXPECT_EQ(lines_with(part, "\"rank 3 (h)\"").size(), 1U);
}

TEST(Render, EveryThreadHasARowOfItsOwn) {
  Timeline timeline(0);
  std::set<RowId> rows = {timeline.row_of_this_thread(), timeline.row_of_this_thread()};
  std::thread([&] { rows.insert(timeline.row_of_this_thread()); }).join();
  EXPECT_EQ(rows.size(), 2U);
}

TEST(Render, TimesAreMicrosecondsOfTheFirstRanksClock) {
  EXPECT_NE(process_mark_event(0, 1'234'567, "m").find(R"("ts":1234.567,)"), std::string::npos);
  EXPECT_NE(process_mark_event(0, -5, "m").find(R"("ts":-0.005,)"), std::string::npos);
}

TEST(Timeline, NamesBeyondTheLimitShareOne) {
  Timeline timeline(0);
  for (std::size_t i = 0; i < Timeline::kMostNames; ++i) timeline.name(text("name ", i));
  const NameId shared = timeline.name("one more");
  EXPECT_EQ(timeline.name("and another one"), shared);
  EXPECT_EQ(timeline.name("name 7"), 7U);
}

class Parts : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / text("tnt-parts-", ::getpid());
    std::filesystem::create_directory(folder_);
    path_ = folder_ / "trace.json";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write_part(int rank, int size, PartState state) const {
    const Timeline timeline(rank);
    write_atomically(
        part_path(path_, rank),
        render_part(timeline, {.rank = rank, .size = size, .host = "h", .state = state}));
  }
  TracePaths place() const { return {path_, path_, true}; }
  std::string merged() const {
    std::ostringstream content;
    content << std::ifstream(path_).rdbuf();
    return content.str();
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  std::filesystem::path folder_;
  std::string path_;
};

TEST_F(Parts, AreRemovedOnceNoRankWritesAnyMore) {
  write_part(0, 2, PartState::complete);
  write_part(1, 2, PartState::partial);
  merge_parts(place(), 2, 0, false);
  EXPECT_EQ(files().size(), 4U);  // trace, two parts and the lock
  merge_parts(place(), 2, 0, true);
  EXPECT_EQ(files(), std::vector<std::string>{"trace.json"});
  const std::string before = merged();
  merge_parts(place(), 2, 0, true);  // by a rank that thought itself the last one too
  EXPECT_EQ(merged(), before);
  EXPECT_EQ(files(), std::vector<std::string>{"trace.json"});
}

TEST_F(Parts, RanksWithoutEventsAreNamedInTheTrace) {
  write_part(0, 3, PartState::complete);
  write_part(2, 3, PartState::started);
  merge_parts(place(), 3, 0, true);
  EXPECT_NE(merged().find(R"({"rank":1,"state":"missing"})"), std::string::npos);
  EXPECT_EQ(lines_with(merged(), "no events of rank 0").size(), 0U);
  EXPECT_EQ(lines_with(merged(), "no events of rank 1").size(), 1U);
  EXPECT_EQ(lines_with(merged(), "no events of rank 2").size(), 1U);
}

TEST_F(Parts, ADamagedPartIsAMissingOne) {
  write_part(0, 2, PartState::complete);
  std::ofstream(part_path(path_, 1)) << "{\"displayTimeUnit\":\"ms\",";
  merge_parts(place(), 2, 0, true);
  EXPECT_NE(merged().find(R"({"rank":1,"state":"missing"})"), std::string::npos);
}

TEST_F(Parts, OfOthersThatAreLinksAreNotRead) {
  write_part(0, 2, PartState::complete);
  std::filesystem::copy_file(part_path(path_, 0), folder_ / "elsewhere");
  std::filesystem::create_symlink(folder_ / "elsewhere", part_path(path_, 1));
  merge_parts(place(), 2, 0, true);
  EXPECT_NE(merged().find(R"({"rank":1,"state":"missing"})"), std::string::npos);
}

TEST_F(Parts, AreNotMergedUnderALockThatIsALink) {
  write_part(0, 1, PartState::complete);
  std::filesystem::create_symlink(folder_ / "precious", path_ + ".ranks.lock");
  EXPECT_THROW(merge_parts(place(), 1, 0, true), Error);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "precious"));
}

TEST_F(Parts, OfADeviceAreJoinedOnceAndLeaveNothing) {
  write_part(0, 1, PartState::complete);
  const TracePaths device{"/dev/null", path_, false};
  merge_parts(device, 1, 0, false);
  EXPECT_EQ(files().size(), 1U);
  merge_parts(device, 1, 0, true);
  EXPECT_TRUE(files().empty());
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST_F(Parts, LieAmongTemporaryFilesIfTheTraceIsNoRegularFile) {
  const TracePaths device = trace_paths("/dev/null", "job");
  EXPECT_EQ(device.path, "/dev/null");
  EXPECT_FALSE(device.is_replaced);
  EXPECT_EQ(std::filesystem::path(device.parts).parent_path(),
            std::filesystem::temp_directory_path());
  EXPECT_THROW(trace_paths(folder_, "job"), UsageError);
}

TEST_F(Parts, AreBesideWhatALinkLeadsTo) {
  std::filesystem::create_directory(folder_ / "deep");
  std::filesystem::create_symlink("deep/target.json", folder_ / "link");
  for (const bool exists : {false, true}) {
    if (exists) std::ofstream(folder_ / "deep/target.json") << "old";
    const TracePaths found = trace_paths(folder_ / "link", "job");
    EXPECT_EQ(found.path, (folder_ / "deep/target.json").string());
    EXPECT_EQ(found.parts, found.path);
    EXPECT_TRUE(found.is_replaced);
  }
  std::filesystem::create_symlink("round", folder_ / "round");
  EXPECT_THROW(trace_paths(folder_ / "round", "job"), std::exception);
}

TEST_F(Parts, ThatAJobHasLeftCanBeMergedLater) {
  EXPECT_THROW(merge_left_parts(path_), UsageError);
  write_part(1, 3, PartState::partial);
  merge_left_parts(path_);
  EXPECT_NE(merged().find(R"("size":3)"), std::string::npos);
  EXPECT_EQ(files(), std::vector<std::string>{"trace.json"});
}

TEST_F(Parts, AFileThatCannotBeWrittenIsAnErrorThatNamesIt) {
  try {
    write_atomically(folder_ / "missing" / "trace.json", "");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("missing/trace.json"), std::string::npos);
  }
}

}  // namespace
}  // namespace tnt::comm
