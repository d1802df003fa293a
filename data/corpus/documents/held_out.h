#pragma once

#include <cstdint>
#include <deque>

#include "data/corpus/corpus.h"

namespace comera::data {

// Decides for every document whether it is held out (Document::held_out), unless the source has: by its
// content (is_held_out), but so that a small corpus too has both parts. Where content would put all of it
// into one, the document with the smallest hash is held out, or its end if it is more than a tenth of the
// corpus. Order stays. Up to 16 MiB of documents wait for the first of each part; if one part has none by
// then, this holds for them. A fraction of 0 holds nothing out.
class WithHeldOut final : public DocumentSource {
 public:
  // source: must outlive this.
  WithHeldOut(DocumentSource& source, double fraction) : source_(source), fraction_(fraction) {}
  bool next(Document& document) override;
  CorpusCounts counts() const override { return source_.counts(); }

 private:
  bool read(Document& document);
  void wait_for_both();
  void choose_one();

  DocumentSource& source_;
  double fraction_;
  std::deque<Document> waiting_;
  bool begun_ = false, source_decides_ = false;
};

}  // namespace comera::data
