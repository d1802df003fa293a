#pragma once

#include <string>
#include <vector>

#include "tests/attack/sample.h"
#include "tests/attack/try.h"

namespace comera::attack {

// A command that makes one thing, a file or a folder, of this or of that content.
struct Product {
  enum class Shape : std::uint8_t {
    whole,   // there is the old one or the new one at any moment
    shards,  // or one that is refused by those who read it
    runs,    // resumes where it was ended
  };
  std::string name;    // of the command
  std::string output;  // its product, in the try's folder
  Shape shape = Shape::whole;
  std::vector<std::string> (*words)(const Sample& sample, int content) = nullptr;  // see making()
};

const std::vector<Product>& products();
const Product& product(const std::string& name);

// The arguments that make it, in whatever folder they are called in. content: 0 or 1.
std::vector<std::string> making(const Sample& sample, const Product& product, int content, bool overwrite);
// The same, made with nothing in the way.
const Sample::Made& made(const Sample& sample, const Product& product, int content);

// Where two runs' folders, or others, differ that hold such a thing. "" if they do not.
std::string difference_of(const Product& product, const fs::path& ours, const fs::path& theirs);

// A folder's content of this product.
struct Standing {
  int content = -1;         // 0 or 1, as when made alone; -1: neither
  bool there = false;       // anything under its name
  std::string differences;  // why it is neither
};
Standing standing(const Sample& sample, const Product& product, const fs::path& folder);

// A command that reads the product and must reject an incomplete one; no words if there is none.
std::vector<std::string> reading_of(const Sample& sample, const Product& product);

}  // namespace comera::attack
