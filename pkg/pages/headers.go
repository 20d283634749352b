package pages

import "strings"

// Policy returns the content security policy of pages: own resources only, and form targets on this
// site and formsTo.
func Policy(formsTo ...string) string {
	return "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; " +
		"form-action " + strings.Join(append([]string{"'self'"}, formsTo...), " ") +
		"; frame-ancestors 'none'; base-uri 'none'"
}

// Headers returns the headers of every page.
func Headers(https bool) map[string]string {
	h := map[string]string{
		"Content-Security-Policy": Policy(),
		// not no-referrer: browsers would send forms with the origin "null", which the origin check
		// rejects
		"Referrer-Policy":              "same-origin",
		"X-Content-Type-Options":       "nosniff",
		"Cross-Origin-Opener-Policy":   "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin",
		"Permissions-Policy":           "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
		"Cache-Control":                "no-store",
	}
	if https {
		h["Strict-Transport-Security"] = "max-age=31536000"
	}
	return h
}
