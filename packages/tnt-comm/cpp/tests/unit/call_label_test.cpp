#include "tnt/comm/collective/descriptor.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tnt/comm/base/error.hpp"

namespace tnt::comm {
namespace {

TEST(CallLabel, NotesShowLabelAndCaller) {
  EXPECT_EQ(note_of({}), "");
  EXPECT_EQ(note_of({"fit", ""}), " 'fit'");
  EXPECT_EQ(note_of({"", "a.py:1"}), " from a.py:1");
  EXPECT_EQ(note_of({"fit", "a.py:1"}), " 'fit' from a.py:1");
  EXPECT_EQ(note_of({.label = {}, .caller = "a.py:1", .created = "Gatherer 'rows'"}),
            " of Gatherer 'rows' from a.py:1");
}

TEST(CallLabel, CallersAreFoundUnlessTheyAreGiven) {
  const auto find = [] { return std::string("found.py:7"); };
  EXPECT_EQ(note_of({"", "", find}), " from found.py:7");
  EXPECT_EQ(note_of({"fit", "", find}), " 'fit' from found.py:7");
  EXPECT_EQ(note_of({"fit", "a.py:1", find}), " 'fit' from a.py:1");
}

TEST(CallLabel, LongNotesLoseTheEndOfTheLabelAndTheBeginOfTheCaller) {
  const std::string label = "fit" + std::string(300, 'x');
  const std::string caller = std::string(300, '/') + "a.py:1";
  const std::string note = note_of({label, caller});
  EXPECT_LE(note.size(), kMaxNoteBytes);
  EXPECT_EQ(note.find(" 'fitxxx"), 0U);
  EXPECT_NE(note.find("xxx...' from ...///"), std::string::npos);
  EXPECT_EQ(note.substr(note.size() - 9), "///a.py:1");
}

TEST(CallLabel, CharactersOfSeveralBytesAreNotCutApart) {
  const std::string alphas = [] {
    std::string text;
    for (int i = 0; i < 100; ++i) text += "\u03b1";
    return text;
  }();
  for (std::size_t count = 0; count <= 200; ++count) {
    EXPECT_EQ(first_bytes(alphas, count).size(), count / 2 * 2);
    EXPECT_EQ(last_bytes(alphas, count).size(), count / 2 * 2);
    EXPECT_EQ(last_bytes("x" + alphas, count).size(), count / 2 * 2);
  }
  EXPECT_EQ(first_bytes("abc", 3), "abc");
  EXPECT_EQ(last_bytes("abc", 2), "bc");
}

TEST(CallLabel, FingerprintsTellLabelsApart) {
  EXPECT_EQ(fingerprint_of(""), 0U);
  std::set<std::uint64_t> fingerprints;
  for (const char* label : {"", "a", "b", "ab", "ba", "fit: end of step", "fit: end of steps"}) {
    fingerprints.insert(fingerprint_of(label));
  }
  EXPECT_EQ(fingerprints.size(), 7U);
}

TEST(CallLabel, DescriptorsOfDifferentLabelsDoNotMatch) {
  const Descriptor plain{.kind = CollectiveKind::allgather, .count = 5};
  Descriptor labelled = plain;
  labelled.label = fingerprint_of("fit");
  EXPECT_FALSE(plain.matches(labelled));
  EXPECT_NE(plain.fingerprint(), labelled.fingerprint());
  EXPECT_TRUE(labelled.matches(labelled));
}

}  // namespace
}  // namespace tnt::comm
