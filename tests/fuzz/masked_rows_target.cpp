#include "data/masked_rows.h"
#include "tests/fuzz/described_file.h"
#include "tests/fuzz/target.h"

namespace comera::fuzz {
namespace {

constexpr std::int32_t vocabulary = 100;
constexpr std::int64_t rows = 2, width = 6, most_targets = 3;

// Reads every row in both ways; accepted content is consistent.
void read_all() {
  refuses(scratch_file(), [] {
    const data::SpecialIds special;
    const data::MaskedRowSet set({scratch_file()}, vocabulary, special);
    for (const bool restored : {false, true}) {
      data::MaskedRows samples(set, 1024, restored, 1 << 16);
      const std::vector<std::int32_t> lengths = samples.lengths();
      if (static_cast<std::int64_t>(lengths.size()) != samples.count()) broken("lengths are missing");
      data::Sample sample;
      for (std::int64_t i = 0; i < samples.count(); ++i) {
        samples.read(i, sample);
        const std::size_t length = sample.ids.size();
        if (length == 0 || static_cast<std::int32_t>(length) != lengths[static_cast<std::size_t>(i)] ||
            sample.type_ids.size() != length)
          broken("a row's length is wrong");
        for (std::size_t at = 0; at < length; ++at) {
          if (sample.ids[at] < 0 || sample.ids[at] >= vocabulary) broken("a token id is out of range");
          if (sample.type_ids[at] < 0 || sample.type_ids[at] >= set.types())
            broken("a segment id is out of range");
        }
        if (sample.targets.positions.size() != sample.targets.ids.size()) broken("targets are missing");
        for (std::size_t at = 0; at < sample.targets.ids.size(); ++at) {
          if (sample.targets.ids[at] < 0 || sample.targets.ids[at] >= vocabulary)
            broken("a target is out of range");
          if (sample.targets.positions[at] < 0 ||
              static_cast<std::size_t>(sample.targets.positions[at]) >= length)
            broken("a target is outside of its row");
        }
        if (restored && !sample.targets.ids.empty()) broken("targets stay where they were put back");
      }
    }
  });
}

struct Part {
  const char* name;
  std::vector<std::int32_t> values;
  std::vector<std::int64_t> shape;
};

// Two sound rows, of five tokens and of four.
const std::vector<Part>& sound() {
  static const std::vector<Part> parts = [] {
    const data::SpecialIds special;
    const std::int32_t cls = special.cls, mask = special.mask, separator = special.separator;
    return std::vector<Part>{
        {"input_ids", {cls, 7, mask, 8, separator, 0, cls, 9, mask, separator, 0, 0}, {rows, width}},
        {"input_mask", {1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 0, 0}, {rows, width}},
        {"segment_ids", {0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0}, {rows, width}},
        {"masked_lm_positions", {2, 3, 0, 2, 0, 0}, {rows, most_targets}},
        {"masked_lm_ids", {50, 8, 0, 51, 0, 0}, {rows, most_targets}},
        {"next_sentence_labels", {0, 1}, {rows}},
    };
  }();
  return parts;
}

const Vocabulary names = {{"/input_ids", "/input_mask", "/segment_ids", "/masked_lm_positions",
                           "/masked_lm_ids", "/next_sentence_labels"},
                          {"any"}};

// A valid HDF5 file: first the content described by the bytes, then two valid rows of missing or unwanted
// datasets, with single values changed.
void run(Bytes input) {
  Choices choices(input);
  const std::uint8_t absent = choices.byte(), changes = choices.byte() % 8;
  std::vector<Part> parts = sound();
  for (std::uint8_t i = 0; i < changes; ++i) {
    std::vector<std::int32_t>& values = parts[choices.byte() % parts.size()].values;
    values[choices.byte() % values.size()] = static_cast<std::int32_t>(choices.number());
  }
  {
    DescribedFile described(scratch_file());
    while (choices.left()) described.add(choices, names);
  }
  {
    storage::hdf5::File file = storage::hdf5::File::modify(scratch_file());
    for (std::size_t i = 0; i < parts.size(); ++i)
      if ((absent >> i & 1) == 0 && lacks(file, parts[i].name))
        file.write(parts[i].name, parts[i].values, parts[i].shape);
    file.close();
  }
  read_all();
}

std::vector<std::string> seeds() {
  using namespace std::string_literals;
  return {
      "\x00"s,                                  // two sound rows
      "\x20"s,                                  // without labels
      "\x01\x00"s,                              // without ids
      "\x00\x01\x03\x00\x09"s,                  // another target's position
      "\x00\x02\x01\x04\x00\x00\x02\x63"s,      // a shorter mask
      "\x00\x00\x04\x01\x00\x03\x02\x02\x06"s,  // a dataset of another shape
      "\x00\x00\x04\x00\x05\x07\x02\x02\xd4\x04"s,
  };
}

}  // namespace

const Target masked_rows_target = {"masked_rows", run, nullptr, seeds};

}  // namespace comera::fuzz
