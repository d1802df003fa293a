#include "kernels/core/tensors/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "kernels/core/machine.h"

namespace comera {

const char* name_of(MemoryKind kind) {
  constexpr const char* names[] = {"parameters", "gradients", "optimizer", "activations", "workspace"};
  return names[static_cast<int>(kind)];
}

void* Allocator::allocate(std::size_t bytes, MemoryKind kind) {
  COMERA_CHECK(!forbidden_, "{} bytes for {} were asked for inside a step, which must not allocate", bytes,
               name_of(kind));
  if (bytes == 0) return nullptr;
  void* data = do_allocate(bytes);
  if (data == nullptr) {
    std::string in_use;
    for (int k = 0; k < memory_kinds; ++k)
      if (current_[k] > 0)
        in_use += fmt::format("{}{} {:.1f}", in_use.empty() ? "" : ", ", name_of(static_cast<MemoryKind>(k)),
                              static_cast<double>(current_[k]) / 1048576.0);
    throw OutOfMemory(
        fmt::format("out of memory: {:.1f} MiB for {} could not be allocated{}; {}", bytes / 1048576.0,
                    name_of(kind), in_use.empty() ? "" : fmt::format(" beside {} MiB", in_use),
                    kind == MemoryKind::activations || kind == MemoryKind::workspace
                        ? "make micro-batches smaller (tokens_per_micro_batch, examples_per_micro_batch)"
                        : "make the model smaller"));
  }
  const int k = static_cast<int>(kind);
  const std::size_t current = current_[k] += bytes;
  std::size_t peak = peak_[k];
  while (peak < current && !peak_[k].compare_exchange_weak(peak, current)) {
  }
  return data;
}

void Allocator::deallocate(void* data, std::size_t bytes, MemoryKind kind) noexcept {
  if (data == nullptr) return;
  do_deallocate(data, bytes);
  current_[static_cast<int>(kind)] -= bytes;
}

namespace {

// Work on the host is done when the call returns: blocks are filled in place.
class InPlaceFeed final : public Feed {
 public:
  explicit InPlaceFeed(void* place) : place_(place) {}
  void* next() override { return place_; }
  void send() override {}

 private:
  void* place_;
};

}  // namespace

std::unique_ptr<Feed> Allocator::feed(void* place, std::size_t) {
  return std::make_unique<InPlaceFeed>(place);
}

std::unique_ptr<ProfileClock> Allocator::profile_clock(const Stream& /*stream*/) { return nullptr; }

std::unique_ptr<Recording> Allocator::record(const Stream&, const std::function<void()>&) { return nullptr; }

MemoryUse Allocator::use(MemoryKind kind) const {
  return {current_[static_cast<int>(kind)], peak_[static_cast<int>(kind)]};
}

void Allocator::reset_peaks() {
  for (int k = 0; k < memory_kinds; ++k) peak_[k] = current_[k].load();
}

namespace {

class HostAllocator final : public Allocator {
 public:
  HostAllocator() : Allocator(Device{}) {}

  void upload(void* device_memory, const void* host, std::size_t bytes, const Stream&) override {
    std::memcpy(device_memory, host, bytes);
  }
  void download(void* host, const void* device_memory, std::size_t bytes, const Stream&) override {
    std::memcpy(host, device_memory, bytes);
  }
  void synchronize(const Stream&) override {}
  std::size_t available() const override {
    static const std::size_t most = own_memory();
    std::size_t held = 0;
    for (int kind = 0; kind < memory_kinds; ++kind) held += use(static_cast<MemoryKind>(kind)).current;
    return most - std::min(most, held);
  }

 private:
  static constexpr std::size_t huge_page = std::size_t{2} << 20;
  static std::size_t rounded(std::size_t bytes) { return (bytes + 63) / 64 * 64; }
  void* do_allocate(std::size_t bytes) override {
    if (bytes > available()) return nullptr;
    const std::size_t whole = rounded(bytes);
    const bool large = whole >= huge_page;
    void* data = nullptr;
    if (posix_memalign(&data, large ? huge_page : 64, whole) != 0) return nullptr;
    // Rows of large tensors span many pages, which makes lookups of small rows slow. The advice may be
    // ignored.
    if (large) madvise(data, whole, MADV_HUGEPAGE);
    std::memset(data, 0, whole);
    return data;
  }
  void do_deallocate(void* data, std::size_t) noexcept override { std::free(data); }
};

}  // namespace

Allocator& host_allocator() {
  static HostAllocator allocator;
  return allocator;
}

HostCopy::HostCopy(Allocator& allocator, const Tensor& tensor)
    : allocator_(allocator), original_(tensor), copy_(tensor) {
  COMERA_CHECK(tensor.device() == allocator.device(), "a tensor of another device than its allocator's");
  if (tensor.device().kind == DeviceKind::cpu) return;
  memory_.resize(tensor.bytes());
  copy_ = Tensor(memory_.data(), tensor.shape(), tensor.dtype());
}

HostCopy& HostCopy::read() {
  if (memory_.empty()) return *this;
  allocator_.download(copy_.raw(), original_.raw(), copy_.bytes(), allocator_.stream());
  allocator_.synchronize(allocator_.stream());
  return *this;
}

void HostCopy::write() {
  if (memory_.empty()) return;
  allocator_.upload(original_.raw(), copy_.raw(), copy_.bytes(), allocator_.stream());
  allocator_.synchronize(allocator_.stream());
}

Buffer::Buffer(Allocator& allocator, std::size_t bytes, MemoryKind kind)
    : allocator_(&allocator), data_(allocator.allocate(bytes, kind)), bytes_(bytes), kind_(kind) {}

Buffer::~Buffer() {
  if (allocator_ != nullptr) allocator_->deallocate(data_, bytes_, kind_);
}

void Buffer::swap(Buffer& other) noexcept {
  std::swap(allocator_, other.allocator_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(kind_, other.kind_);
}

Tensor Buffer::tensor(Shape shape, DType dtype) const {
  const std::size_t wanted = static_cast<std::size_t>(shape.elements()) * size_of(dtype);
  COMERA_CHECK(wanted <= bytes_, "a tensor {} of {} needs {} bytes, the buffer has {}", shape.text(),
               name_of(dtype), wanted, bytes_);
  return Tensor(data_, shape, dtype, allocator_ == nullptr ? Device{} : allocator_->device());
}

}  // namespace comera
