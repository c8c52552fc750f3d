// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/process/address_exchange.h"

#include <mutex>

#include "zeroth/core/base/check.h"

namespace zeroth {
namespace {

struct Slot {
  std::mutex mutex;
  AddressExchange exchange;
};

// Never destroyed: it is filled before main, and threads may still ask after it.
Slot& GlobalSlot() {
  static Slot* const slot = new Slot;
  return *slot;
}

}  // namespace

AddressExchange LauncherAddressExchange() {
  Slot& slot = GlobalSlot();
  std::lock_guard<std::mutex> lock(slot.mutex);
  return slot.exchange;
}

AddressExchangeRegistration::AddressExchangeRegistration(AddressExchange exchange) {
  Slot& slot = GlobalSlot();
  std::lock_guard<std::mutex> lock(slot.mutex);
  ZEROTH_CHECK(exchange != nullptr && slot.exchange == nullptr);
  slot.exchange = std::move(exchange);
}

}  // namespace zeroth
