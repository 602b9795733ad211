// SPDX-License-Identifier: GPL-2.0-only
/*
 * The trace events, once.
 */
#define CREATE_TRACE_POINTS
#include "trace.h"
