// What every page of the documentation has: a place in the index of docs/README.md, a title and then a
// sentence, short lines, links that lead somewhere, and names of files that exist. The README stays a page,
// and folders have rooms.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace comera::test {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t longest_line = 400;  // characters
constexpr int most_words_of_readme = 700;

const fs::path docs_root = COMERA_SOURCE_DIR;

std::vector<std::string> lines_of_page(const fs::path& file) {
  std::ifstream in(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string page_name(const fs::path& page) { return page.lexically_relative(docs_root).generic_string(); }

// The pages below docs/, in order.
std::vector<fs::path> pages_of_docs() {
  std::vector<fs::path> pages;
  for (const auto& entry : fs::recursive_directory_iterator(docs_root / "docs"))
    if (entry.path().extension() == ".md") pages.push_back(entry.path());
  std::sort(pages.begin(), pages.end());
  return pages;
}

std::vector<fs::path> all_pages() {
  std::vector<fs::path> pages = pages_of_docs();
  for (const char* name : {"README.md", "CONTRIBUTING.md", "CHANGELOG.md"}) pages.push_back(docs_root / name);
  return pages;
}

// Bytes that do not continue a character of UTF-8.
std::size_t characters(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
}

bool begins_list_item(const std::string& line) {
  const std::size_t at = line.find_first_not_of("0123456789");
  return at != std::string::npos && (line.compare(at, 2, at == 0 ? "- " : ". ") == 0);
}

// Empty lines in the place of code, fenced or indented. In lists only fenced code is taken out.
std::vector<std::string> without_code(std::vector<std::string> lines) {
  bool fenced = false, in_list = false, after_gap = true;
  for (std::string& line : lines) {
    const std::size_t indent = line.find_first_not_of(' ');
    const bool fence = indent != std::string::npos && line.compare(indent, 3, "```") == 0;
    if (indent == 0) in_list = begins_list_item(line);
    const bool code = !in_list && after_gap && indent != std::string::npos && indent >= 4;
    after_gap = indent == std::string::npos || code || (indent == 0 && line[0] == '#');
    if (fenced || fence || code) line.clear();
    if (fence) fenced = !fenced;
  }
  return lines;
}

// A line without what is in backticks.
std::string without_code_spans(const std::string& line) {
  std::string text;
  bool code = false;
  for (const char c : line) {
    if (c == '`')
      code = !code;
    else if (!code)
      text += c;
  }
  return text;
}

// The anchor of a heading: its text without markup, in lower case, with hyphens for spaces and without
// punctuation.
std::string anchor_of(const std::string& heading) {
  std::string text;
  for (std::size_t i = 0; i < heading.size(); ++i) {
    if (heading.compare(i, 2, "](") == 0) {
      i = heading.find(')', i);
      if (i == std::string::npos) break;
      continue;
    }
    const auto c = static_cast<unsigned char>(heading[i]);
    if (c >= 0x80 || std::isalnum(c) != 0 || c == '-' || c == '_')
      text += static_cast<char>(std::tolower(c));
    else if (c == ' ')
      text += '-';
  }
  return text;
}

// A second heading of the same text has "-1" behind its anchor.
std::set<std::string> anchors_of(const fs::path& page) {
  std::set<std::string> anchors;
  std::map<std::string, int> seen;
  for (const std::string& line : without_code(lines_of_page(page))) {
    const std::size_t level = line.find_first_not_of('#');
    if (level == 0 || level == std::string::npos || line[level] != ' ') continue;
    const std::string anchor = anchor_of(line.substr(level + 1));
    const int before = seen[anchor]++;
    anchors.insert(before == 0 ? anchor : fmt::format("{}-{}", anchor, before));
  }
  return anchors;
}

struct Link {
  std::size_t line;
  std::string target;
};

std::vector<Link> links_of(const fs::path& page) {
  std::vector<Link> links;
  const std::vector<std::string> lines = without_code(lines_of_page(page));
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string text = without_code_spans(lines[i]);
    for (std::size_t at = text.find("]("); at != std::string::npos; at = text.find("](", at + 2)) {
      const std::size_t end = text.find(')', at);
      if (end != std::string::npos) links.push_back({i + 1, text.substr(at + 2, end - at - 2)});
    }
  }
  return links;
}

// Why a link of a page leads nowhere, if it does.
std::optional<std::string> broken(const fs::path& page, const std::string& target) {
  if (target.find(':') != std::string::npos) return std::nullopt;  // another site's
  const std::size_t hash = target.find('#');
  const std::string path = target.substr(0, hash);
  const fs::path file = path.empty() ? page : page.parent_path() / path;
  if (!fs::exists(file)) return "there is no such file";
  if (hash == std::string::npos) return std::nullopt;
  if (anchors_of(file).count(target.substr(hash + 1)) == 0) return "that page has no such heading";
  return std::nullopt;
}

TEST(Docs, EveryPageIsInTheIndex) {
  const fs::path index = docs_root / "docs/README.md";
  std::set<fs::path> listed;
  for (const Link& link : links_of(index))
    listed.insert((index.parent_path() / link.target.substr(0, link.target.find('#'))).lexically_normal());
  listed.insert(index);
  for (const fs::path& page : pages_of_docs())
    EXPECT_EQ(listed.count(page), 1U) << page_name(page) << " is not in docs/README.md";
}

TEST(Docs, APageBeginsWithATitleAndASentence) {
  for (const fs::path& page : all_pages()) {
    const std::vector<std::string> lines = lines_of_page(page);
    ASSERT_GT(lines.size(), 2U) << page_name(page);
    EXPECT_EQ(lines[0].rfind("# ", 0), 0U) << page_name(page) << " does not begin with a title";
    std::size_t at = 1;
    while (at < lines.size() && lines[at].empty()) ++at;
    std::string paragraph;
    for (; at < lines.size() && !lines[at].empty(); ++at) paragraph += lines[at] + " ";
    const bool prose = !paragraph.empty() && std::isalpha(static_cast<unsigned char>(paragraph.front())) != 0;
    EXPECT_TRUE(prose && paragraph.find(". ") != std::string::npos)
        << page_name(page) << ": the title is not followed by a sentence that says what the page is for";
  }
}

TEST(Docs, LinesAreShort) {
  for (const fs::path& page : all_pages()) {
    const std::vector<std::string> lines = lines_of_page(page);
    for (std::size_t i = 0; i < lines.size(); ++i)
      EXPECT_LE(characters(lines[i]), longest_line) << page_name(page) << ":" << i + 1;
  }
}

TEST(Docs, LinksLeadSomewhere) {
  for (const fs::path& page : all_pages())
    for (const Link& link : links_of(page)) {
      const std::optional<std::string> reason = broken(page, link.target);
      EXPECT_FALSE(reason.has_value())
          << page_name(page) << ":" << link.line << ": " << link.target << ": " << reason.value_or("");
    }
}

// `folder/file.cpp` in a page is a file of the project; names in capitals stand for others.
TEST(Docs, FilesAreWhereThePagesSay) {
  static const std::set<std::string> suffixes = {".h", ".cpp", ".cu", ".py", ".sh", ".cmake", ".toml"};
  int seen = 0;
  for (const fs::path& page : pages_of_docs())
    for (const std::string& line : lines_of_page(page))
      for (std::size_t at = line.find('`'); at != line.npos;) {
        const std::size_t end = line.find('`', at + 1);
        if (end == line.npos) break;
        const std::string span = line.substr(at + 1, end - at - 1);
        at = line.find('`', end + 1);
        const std::string first = span.substr(0, span.find('/'));
        if (span.find('/') == span.npos || span.find_first_of(" *{$<") != span.npos ||
            !suffixes.contains(fs::path(span).extension()) || first.empty() ||
            !fs::is_directory(docs_root / first) ||
            std::any_of(span.begin(), span.end(), [](unsigned char c) { return std::isupper(c); }))
          continue;
        ++seen;
        EXPECT_TRUE(fs::exists(docs_root / span)) << page_name(page) << ": there is no " << span;
      }
  EXPECT_GT(seen, 100);
}

// What somebody can find in one look: no more files at one level of a folder.
TEST(Docs, FoldersHaveRooms) {
  constexpr int most_files = 25;
  static const std::set<std::string> suffixes = {".h", ".cpp", ".cu", ".def"};
  std::map<std::string, int> files;
  for (const auto& top : fs::directory_iterator(docs_root)) {
    const std::string name = top.path().filename();
    if (!top.is_directory() || name.starts_with('.') || name.starts_with("build")) continue;
    for (const auto& entry : fs::recursive_directory_iterator(top))
      if (entry.is_regular_file() && suffixes.contains(entry.path().extension()))
        ++files[page_name(entry.path().parent_path())];
  }
  EXPECT_GT(files.size(), 40U);
  for (const auto& [folder, count] : files) EXPECT_LE(count, most_files) << folder;
}

TEST(Docs, TheReadmeIsAPage) {
  std::ifstream in(docs_root / "README.md");
  const auto words = std::distance(std::istream_iterator<std::string>(in), {});
  EXPECT_GT(words, 0);
  EXPECT_LE(words, most_words_of_readme) << "move what is a detail to docs/guide";
}

}  // namespace

}  // namespace comera::test
