// Two processes that create the same thing at once, and runs that are read while they write.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tests/attack/kinds.h"
#include "tests/attack/products.h"
#include "tests/attack/trees.h"

namespace comera::attack {

namespace {

struct Side {
  int content = 0;
  bool overwrites = false;
};

// Both end; each as the judge allows.
std::array<Ending, 2> both(Try& own, const Product& product, const std::array<Side, 2>& sides,
                           double seconds) {
  std::array<Call, 2> calls;
  for (std::size_t i = 0; i < 2; ++i)
    calls[i] = own.comera(making(own.sample(), product, sides[i].content, sides[i].overwrites));
  Child first(calls[0]);
  // At once, or somewhere on the first one's way, which was watched, and so slow, when it was measured.
  const double wait = own.chance.one_in(2) ? 0 : 0.4 * seconds * own.chance.share();
  if (wait > 0) first.wait_for(wait);
  Child second(calls[1]);
  std::array<Ending, 2> endings = {first.end(), second.end()};
  for (std::size_t i = 0; i < 2; ++i) own.check(calls[i], endings[i], {.names = {product.output}});
  return endings;
}

void check_result(Try& own, const Product& product, const std::array<Side, 2>& sides,
                  const std::array<Ending, 2>& endings, bool over_old) {
  const Standing found = standing(own.sample(), product, own.folder());
  const auto won = [&](std::size_t i) { return endings[i].code == 0; };
  const bool none = !won(0) && !won(1);
  if (!found.there) return own.fail(none ? "both were refused, and nothing is there" : "nothing is there");
  if (found.content < 0) return own.fail("what is there is what neither makes: " + found.differences);
  const bool may_win = !over_old || sides[0].overwrites || sides[1].overwrites;
  if (none && may_win) return own.fail("both were refused");
  if (won(0) && won(1) && !sides[0].overwrites && !sides[1].overwrites &&
      product.shape != Product::Shape::runs)
    return own.fail("both have made what neither may replace");
  const bool is_a_winners =
      (won(0) && found.content == sides[0].content) || (won(1) && found.content == sides[1].content) || none;
  if (!is_a_winners) own.fail("what is there is not what the one that ended well makes");
  if (const std::string left = temporary_below(own.folder()); !left.empty()) own.fail(left + " is left over");
}

void two_at_once(Try& own) {
  const Product product = own.chance.pick(products());
  const bool goes_on = product.shape == Product::Shape::runs;
  const bool over_old = !goes_on && own.chance.one_in(2);
  std::array<Side, 2> sides;
  for (Side& side : sides) {
    side.content = static_cast<int>(own.chance.below(2));
    side.overwrites = over_old ? !own.chance.one_in(6) : own.chance.one_in(3);
  }
  if (goes_on) sides[1].content = sides[0].content;  // other settings are another command
  const double seconds = made(own.sample(), product, sides[0].content).seconds;
  made(own.sample(), product, sides[1].content);
  if (over_old)
    fs::copy(made(own.sample(), product, static_cast<int>(own.chance.below(2))).folder / product.output,
             own.folder() / product.output, fs::copy_options::recursive);
  const auto endings = both(own, product, sides, seconds);
  if (own.failure().empty()) check_result(own, product, sides, endings, over_old);
}

}  // namespace

void attempt_pair(Try& own) {
  if (own.number() % 8 == 7) return read_while_written(own);
  two_at_once(own);
}

}  // namespace comera::attack
