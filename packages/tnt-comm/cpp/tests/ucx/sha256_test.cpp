#include <gtest/gtest.h>

#include <string>

#include "tnt/comm/transport/rma/bootstrap/sha256.hpp"

namespace tnt::comm {
namespace {

std::string in_hexadecimal(const Digest& digest) {
  std::string result;
  for (const std::uint8_t byte : digest) {
    for (const int nibble : {byte >> 4, byte & 15}) result.push_back("0123456789abcdef"[nibble]);
  }
  return result;
}

// The examples of FIPS 180-4, and lengths around those where another block begins.
TEST(Sha256, GivesTheDigestsOfTheStandard) {
  EXPECT_EQ(in_hexadecimal(sha256("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(in_hexadecimal(sha256("")),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(in_hexadecimal(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(in_hexadecimal(sha256(std::string(1'000'000, 'a'))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  EXPECT_EQ(in_hexadecimal(sha256(std::string(55, 'x'))),
            "d5e285683cd4efc02d021a5c62014694958901005d6f71e89e0989fac77e4072");
  EXPECT_EQ(in_hexadecimal(sha256(std::string(64, 'x'))),
            "7ce100971f64e7001e8fe5a51973ecdfe1ced42befe7ee8d5fd6219506b5393c");
}

TEST(Sha256, DoesNotDependOnThePiecesInWhichBytesAreAdded) {
  const std::string bytes(200, 'b');
  for (std::size_t first = 0; first <= bytes.size(); ++first) {
    Sha256 hash;
    hash.add(bytes.substr(0, first)).add(bytes.substr(first));
    EXPECT_EQ(hash.digest(), sha256(bytes)) << first;
  }
}

// RFC 4231, cases 1, 2 and 6 (a key longer than a block).
TEST(Hmac, GivesTheCodesOfTheStandard) {
  EXPECT_EQ(in_hexadecimal(hmac(std::string(20, '\x0b'), "Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(in_hexadecimal(hmac("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(in_hexadecimal(hmac(std::string(131, '\xaa'),
                                "Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(Hmac, IsEqualToItselfOnly) {
  const Digest code = hmac("key", "message");
  std::string other(bytes_of(code));
  EXPECT_TRUE(are_equal(code, other));
  other.back() = static_cast<char>(other.back() ^ 1);
  EXPECT_FALSE(are_equal(code, other));
  EXPECT_FALSE(are_equal(code, other.substr(1)));
}

TEST(RandomBytes, DifferEachTime) {
  EXPECT_EQ(random_bytes(32).size(), 32U);
  EXPECT_NE(random_bytes(32), random_bytes(32));
}

}  // namespace
}  // namespace tnt::comm
