// Commands that make one thing, ended at a call to the system that changes files: the thing is the old one,
// the new one or not there, and the same command makes it afterwards.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>

#include "tests/attack/kinds.h"
#include "tests/attack/products.h"
#include "tests/attack/run_folder.h"
#include "tests/attack/trees.h"

namespace comera::attack {

namespace {

struct Aim {
  Strike strike;
  double seconds = -1;  // not negative: after so long instead
};

Aim aim(Try& own, const Sample::Made& whole) {
  Aim aim;
  const auto changes = static_cast<std::size_t>(std::max(whole.changes, 1));
  // Things get their names at the end.
  const std::size_t from_end =
      own.chance.below(own.chance.one_in(2) ? std::min<std::size_t>(changes, 24) : changes);
  aim.strike.change = static_cast<int>(changes - from_end);
  aim.strike.after = own.chance.one_in(2);
  aim.strike.signal = SIGKILL;
  if (own.chance.one_in(5)) aim.strike.signal = own.chance.pick(std::vector{SIGTERM, SIGINT, SIGHUP});
  if (own.chance.one_in(8)) aim.seconds = own.chance.share() * whole.seconds;
  return aim;
}

// Whether it was ended on its way.
bool strike(Try& own, Call call, const Aim& aim) {
  call.traced = aim.seconds < 0;
  Child child(call);
  if (!call.traced) {
    child.wait_for(aim.seconds);
    child.send(aim.strike.signal);
  }
  const Ending ending = call.traced ? child.end_struck(aim.strike) : child.end();
  own.note(fmt::format(
      "{}, {}: $ {}\n# exit code {}, signal {}\n{}",
      call.traced ? fmt::format("{} change {}", aim.strike.after ? "after" : "before", aim.strike.change)
                  : fmt::format("after {:.3f} s", aim.seconds),
      strsignal(aim.strike.signal), text_of(call), ending.code, ending.signal, ending.err));
  const bool by_signal = ending.signal == aim.strike.signal || ending.code == 128 + aim.strike.signal;
  if (by_signal && !ending.late) return true;
  if (const std::string fault = fault_in(ending, {}); !fault.empty())
    own.fail(fmt::format("after '{}': {}", strsignal(aim.strike.signal), fault));
  return false;
}

// Checks the state after a kill. was_there: there was an old product.
void check_standing(Try& own, const Product& product, bool was_there) {
  const Standing found = standing(own.sample(), product, own.folder());
  if (!found.there) {
    if (was_there && product.shape == Product::Shape::whole)
      own.fail("the old one is gone, and no new one is there");
    return;
  }
  if (product.shape == Product::Shape::runs) {
    for (const char* run : {"run", "glue-runs/runs/rte-1"})
      if (const std::string damage = damage_in(own.folder() / run); !damage.empty()) own.fail(damage);
    return;
  }
  if (found.content >= 0) return;
  if (product.shape == Product::Shape::whole)
    return own.fail("neither the old one nor the new one: " + found.differences);
  const std::vector<std::string> reading = reading_of(own.sample(), product);
  if (!reading.empty()) own.check(own.comera(reading), {.success = false, .names = {product.output}});
  std::error_code ignored;
  fs::remove_all(own.folder() / "reader", ignored);
}

// The same command, with nothing in the way.
void make_at_last(Try& own, const Product& product, int content) {
  const bool there = fs::exists(own.folder() / product.output);
  const bool whole = standing(own.sample(), product, own.folder()).content >= 0;
  if (product.shape != Product::Shape::runs && there) {
    const bool must_refuse = whole || product.shape == Product::Shape::whole;
    const Ending ending = own.check(own.comera(making(own.sample(), product, content, false)),
                                    {.success = !must_refuse, .names = {product.output}});
    if (must_refuse && ending.code != 0 && standing(own.sample(), product, own.folder()).content < 0)
      own.fail("a command that refused to replace has changed it");
  }
  own.check(own.comera(making(own.sample(), product, content, there)), {.refusal = false});
  if (!own.failure().empty()) return;
  const std::string found = difference_of(product, own.folder(), made(own.sample(), product, content).folder);
  if (!found.empty()) return own.fail("made after that: " + found);
  if (const std::string left = temporary_below(own.folder()); !left.empty()) own.fail(left + " is left over");
}

}  // namespace

void kill_product(Try& own) {
  const Product product = own.chance.pick(products());
  const int content = static_cast<int>(own.chance.below(2));
  const Sample::Made& whole = made(own.sample(), product, content);
  const bool over_old = product.shape != Product::Shape::runs && own.chance.one_in(2);
  if (over_old)
    fs::copy(made(own.sample(), product, 1 - content).folder / product.output, own.folder() / product.output,
             fs::copy_options::recursive);
  const int most = static_cast<int>(own.chance.between(1, 4));
  int blows = 0;
  for (int i = 0; i < most && own.failure().empty(); ++i) {
    const bool was_there = fs::exists(own.folder() / product.output);
    const Call call = own.comera(making(own.sample(), product, content, was_there));
    blows += strike(own, call, aim(own, whole)) ? 1 : 0;
    check_standing(own, product, was_there);
  }
  own.count(std::max(blows, 1));
  if (own.failure().empty()) make_at_last(own, product, content);
}

}  // namespace comera::attack
