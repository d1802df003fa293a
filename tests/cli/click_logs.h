#pragma once

#include <fmt/format.h>

#include <string>

namespace comera::test {

// Row i of a log of Criteo's: every third is a click, and C1 is a value that comes in every tenth row.
inline std::string criteo_rows(int begin, int end, bool labelled = true) {
  std::string text;
  for (int i = begin; i < end; ++i) {
    text += !labelled ? "" : i % 3 == 0 ? "1\t" : "0\t";
    text += fmt::format("{}", i);
    for (int n = 1; n < 13; ++n) text += fmt::format("\t{}", i + n);
    text += fmt::format("\t{:08x}", i % 10);
    for (int c = 1; c < 26; ++c) text += fmt::format("\t{:08x}", c);
    text += "\n";
  }
  return text;
}

// The same of Avazu's, with its header.
inline std::string avazu_rows(int begin, int end, bool labelled = true) {
  std::string text = fmt::format(
      "id,{}hour,C1,banner_pos,site_id,site_domain,site_category,app_id,app_domain,"
      "app_category,device_id,device_ip,device_model,device_type,device_conn_type,"
      "C14,C15,C16,C17,C18,C19,C20,C21\n",
      labelled ? "click," : "");
  for (int i = begin; i < end; ++i)
    text += fmt::format("{},{}141021{:02},{},0,a,b,c,d,e,f,g,h,{},1,0,{},320,50,1722,0,35,-1,79\n", i,
                        !labelled    ? ""
                        : i % 3 == 0 ? "1,"
                                     : "0,",
                        i % 24, i % 7, i % 5, i % 11);
  return text;
}

}  // namespace comera::test
