#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "recipes/schema/codec.h"

// The recipe's schema: one list of keys per struct of recipe.h, in model_keys.cpp and training_keys.cpp.
// Reading, writing and docs/reference/recipes.md are all derived from it: a new key is one line there, a new
// section is a struct and a list.
namespace comera::recipe_detail {

// The name, allowed values and meaning of one key of struct S.
template <class S>
struct Key {
  std::string name;
  bool required = false;
  std::function<bool(const S&)> applies = {};  // given the keys read so far; empty: always
  std::function<void(S&, const toml::node&, const Path&, Reader&)> read;
  std::function<void(const S&, const Path&, Writer&)> write;
  std::function<void(const Path&, bool required, Reference&)> describe;
};

// The keys of every struct of a recipe: model_keys.cpp, training_keys.cpp.
template <class S>
const std::vector<Key<S>>& keys_of();
template <>
const std::vector<Key<DlrmSection>>& keys_of();
template <>
const std::vector<Key<ModelSection>>& keys_of();
template <>
const std::vector<Key<TTShape>>& keys_of();
template <>
const std::vector<Key<TTMShape>>& keys_of();
template <>
const std::vector<Key<TensorizedSection>>& keys_of();
template <>
const std::vector<Key<GaloreOptions>>& keys_of();
template <>
const std::vector<Key<LowRankSection>>& keys_of();
template <>
const std::vector<Key<LteSection>>& keys_of();
template <>
const std::vector<Key<OptimSection>>& keys_of();
template <>
const std::vector<Key<DataSource>>& keys_of();
template <>
const std::vector<Key<DataSection>>& keys_of();
template <>
const std::vector<Key<DistillationSection>>& keys_of();
template <>
const std::vector<Key<PrecisionSection>>& keys_of();
template <>
const std::vector<Key<DistributedSection>>& keys_of();
template <>
const std::vector<Key<RunSection>>& keys_of();
template <>
const std::vector<Key<AdaptationSection>>& keys_of();
template <>
const std::vector<Key<PhaseSection>>& keys_of();
template <>
const std::vector<Key<Recipe>>& keys_of();

template <class S>
std::vector<std::string> names_of(const std::vector<Key<S>>& keys) {
  std::vector<std::string> names;
  for (const auto& key : keys) names.push_back(key.name);
  return names;
}

template <class S>
void read_table(S& out, const toml::node& node, const Path& path, Reader& reader) {
  const auto& keys = keys_of<S>();
  const toml::table* table = node.as_table();
  if (!table) reader.wrong_value(node, path, "a table");
  for (const auto& entry : *table) {
    const auto known = [&](const Key<S>& key) { return key.name == entry.first.str(); };
    if (std::ranges::none_of(keys, known))
      reader.unknown_key(entry.first, entry.second, path, names_of(keys));
  }
  for (const auto& key : keys) {
    const Path place = path / key.name;
    const bool applies = !key.applies || key.applies(out);
    if (const toml::node* value = table->get(key.name)) {
      reader.note(place, *value);
      if (!applies) reader.idle_key(*value, place);
      key.read(out, *value, place, reader);
    } else if (key.required && applies) {
      reader.missing_key(node, place);
    }
  }
}

// A number, word, truth value, list of numbers, or one of a list of words.
template <class S, class T>
Key<S> value(const char* name, T S::*member, Rule rule, const std::string& doc) {
  Key<S> key;
  key.name = name;
  key.read = [member, rule](S& out, const toml::node& node, const Path& path, Reader& reader) {
    if (!Codec<T>::read(out.*member, node, rule)) reader.wrong_value(node, path, Codec<T>::expected(rule));
  };
  key.write = [member](const S& from, const Path& path, Writer& writer) {
    writer.line(path, Codec<T>::write(from.*member));
  };
  key.describe = [member, rule, doc](const Path& path, bool required, Reference& reference) {
    const std::string initial = Codec<T>::write(S{}.*member);
    reference.row(path, Codec<T>::expected(rule), required ? "required" : initial, doc);
  };
  return key;
}

template <class S, class T>
Key<S> value(const char* name, T S::*member, const std::string& doc) {
  return value(name, member, Rule{}, doc);
}

// A key of a struct that S begins with.
template <class S, class Base>
Key<S> inherited(Key<Base> key) {
  static_assert(std::is_base_of_v<Base, S>);
  return {key.name, key.required, {}, key.read, key.write, key.describe};
}

// A key that is written only if it is not 0.
template <class S>
Key<S> unless_zero(const char* name, std::int64_t S::*member, const Rule& rule, const std::string& doc) {
  Key<S> key = value(name, member, rule, doc);
  key.write = [member](const S& from, const Path& path, Writer& writer) {
    if (from.*member != 0) writer.line(path, Codec<std::int64_t>::write(from.*member));
  };
  key.describe = [rule, doc](const Path& path, bool, Reference& reference) {
    reference.row(path, Codec<std::int64_t>::expected(rule), "", doc);
  };
  return key;
}

template <class S>
Key<S> required(Key<S> key) {
  key.required = true;
  return key;
}

template <class S, class T>
Key<S> section(const char* name, T S::*member, const std::string& doc) {
  Key<S> key;
  key.name = name;
  key.read = [member](S& out, const toml::node& node, const Path& path, Reader& reader) {
    read_table(out.*member, node, path, reader);
  };
  key.write = [member](const S& from, const Path& path, Writer& writer) {
    writer.section("[" + path.text() + "]");
    for (const auto& inner : keys_of<T>()) inner.write(from.*member, path / inner.name, writer);
  };
  key.describe = [doc](const Path& path, bool, Reference& reference) {
    reference.section("[" + path.text() + "]", doc);
    for (const auto& inner : keys_of<T>()) inner.describe(path / inner.name, inner.required, reference);
  };
  return key;
}

// An optional section.
template <class S, class T>
Key<S> optional_section(const char* name, std::optional<T> S::*member, const std::string& doc) {
  Key<S> key;
  key.name = name;
  key.read = [member](S& out, const toml::node& node, const Path& path, Reader& reader) {
    read_table((out.*member).emplace(), node, path, reader);
  };
  key.write = [member](const S& from, const Path& path, Writer& writer) {
    if (!(from.*member)) return;
    writer.section("[" + path.text() + "]");
    for (const auto& inner : keys_of<T>()) inner.write(*(from.*member), path / inner.name, writer);
  };
  key.describe = [doc](const Path& path, bool, Reference& reference) {
    reference.section("[" + path.text() + "]", doc);
    for (const auto& inner : keys_of<T>()) inner.describe(path / inner.name, inner.required, reference);
  };
  return key;
}

// Reads every list in the table and its subtables, by path: TOML reads encoder.0.ffn.up = [8, 16] as nested
// tables. A quoted "encoder.0.ffn.up" is the same.
inline void read_layer_ranks(LayerRanks& out, const std::string& layer, const toml::node& node,
                             const Path& path, Reader& reader) {
  constexpr std::string_view allowed = "abcdefghijklmnopqrstuvwxyz0123456789_.";
  const Path place = layer.empty() ? path : path / layer;
  if (const toml::table* table = node.as_table()) {
    for (const auto& [key, value] : *table) {
      const std::string name(key.str());
      if (name.empty() || name.find_first_not_of(allowed) != name.npos)
        reader.not_a_layer(value, place / name);
      read_layer_ranks(out, layer.empty() ? name : layer + "." + name, value, path, reader);
    }
    return;
  }
  reader.note(place, node);
  if (layer.empty() || !Codec<std::vector<std::int64_t>>::read(out[layer], node, ranks_or_zeros()))
    reader.wrong_value(node, place, Codec<std::vector<std::int64_t>>::expected(ranks_or_zeros()));
}

// A section of rank lists by layer name.
template <class S>
Key<S> layer_ranks(const char* name, LayerRanks S::*member, const std::string& doc) {
  Key<S> key;
  key.name = name;
  key.read = [member](S& out, const toml::node& node, const Path& path, Reader& reader) {
    (out.*member).clear();
    read_layer_ranks(out.*member, "", node, path, reader);
  };
  key.write = [member](const S& from, const Path& path, Writer& writer) {
    if ((from.*member).empty()) return;
    writer.section("[" + path.text() + "]");
    for (const auto& [layer, list] : from.*member)
      writer.line(path / layer, Codec<std::vector<std::int64_t>>::write(list));
  };
  key.describe = [doc](const Path& path, bool, Reference& reference) {
    reference.section("[" + path.text() + "]", doc);
    reference.row(
        path / "LAYER", Codec<std::vector<std::int64_t>>::expected(ranks_or_zeros()), "",
        "the layer's ranks, or 0 for every bond: the layer is removed, and only its bias remains "
        "(not the head's or the embedding); LAYER as in `encoder.0.attention.query`, `encoder.0.ffn.up`, "
        "`head.transform`, `head.pooler`, `embedding.tokens`, of a click model `bottom.0`, `table.3`, "
        "`top.1`");
  };
  return key;
}

// [[name]], at least one of them; optional if not required().
template <class S, class T>
Key<S> sections(const char* name, std::vector<T> S::*member, const std::string& doc) {
  Key<S> key;
  key.name = name;
  key.read = [member](S& out, const toml::node& node, const Path& path, Reader& reader) {
    const std::string expected = "a list of at least one [[" + path.text() + "]]";
    const toml::array* list = node.as_array();
    if (!list || list->empty()) reader.wrong_value(node, path, expected);
    (out.*member).clear();
    for (std::size_t i = 0; i < list->size(); ++i) {
      const Path place = path / std::to_string(i);
      reader.note(place, (*list)[i]);
      read_table((out.*member).emplace_back(), (*list)[i], place, reader);
    }
  };
  key.write = [member](const S& from, const Path& path, Writer& writer) {
    const std::vector<T>& entries = from.*member;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      writer.section("[[" + path.text() + "]]");
      writer.entry(path, i);
      for (const auto& inner : keys_of<T>()) inner.write(entries[i], path / inner.name, writer);
    }
  };
  key.describe = [doc](const Path& path, bool, Reference& reference) {
    reference.section("[[" + path.text() + "]]", doc);
    for (const auto& inner : keys_of<T>()) inner.describe(path / "N" / inner.name, inner.required, reference);
  };
  return key;
}

}  // namespace comera::recipe_detail
