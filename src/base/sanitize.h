/* COTO_ASAN: 1 when built with AddressSanitizer, by gcc or clang. It keeps its marks
 * of stack frames in memory, so a child that shares ours would leave its marks in our
 * frames: such children get a copy instead. */
#pragma once

#if defined __SANITIZE_ADDRESS__
#define COTO_ASAN 1
#elif defined __has_feature
#if __has_feature(address_sanitizer)
#define COTO_ASAN 1
#endif
#endif
#ifndef COTO_ASAN
#define COTO_ASAN 0
#endif
