// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/process/address_exchange.h"

#include <utility>

#include "zeroth/core/base/registry.h"

namespace zeroth {
namespace {

using Exchanges = Registry<AddressExchangeRegistration, AddressExchange>;
constexpr char kLauncher[] = "launcher";  // the only name

}  // namespace

AddressExchange LauncherAddressExchange() {
  return Exchanges::Global().Find(kLauncher).value_or(nullptr);
}

AddressExchangeRegistration::AddressExchangeRegistration(AddressExchange exchange) {
  Exchanges::Global().Add(kLauncher, std::move(exchange));
}

}  // namespace zeroth
