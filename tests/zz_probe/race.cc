#include <gtest/gtest.h>
#include <thread>
int g; int* volatile leak;
TEST(R, Leak) { leak = new int[10]; leak = nullptr; }
