package api

// TermsVersion is the version of the terms of use in this release: their date. An operator who
// publishes other terms configures another version.
const TermsVersion = "2026-11-22"

// UsageRight sums up the terms in this release. Pages and documents state it in these words only.
const UsageRight = "You may use the data in your own products and show it to their users. " +
	"No plan includes the right to redistribute it."
