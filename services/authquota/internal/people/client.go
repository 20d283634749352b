package people

import (
	"strings"
)

// ClientOf describes a browser by its User-Agent header and address. Neither is stored in full; a person recognizes a device by less.
func ClientOf(userAgent, address string) Client {
	return Client{Agent: agentOf(userAgent), Network: NetworkOf(address)}
}

// The order matters: browsers also name the browsers they are compatible with.
var (
	browsers = [][2]string{
		{"Edg", "Edge"}, {"OPR/", "Opera"}, {"SamsungBrowser/", "Samsung Internet"}, {"Firefox/", "Firefox"}, {"FxiOS/", "Firefox"},
		{"CriOS/", "Chrome"}, {"Chrome/", "Chrome"}, {"Safari/", "Safari"}, {"curl/", "curl"},
	}
	systems = [][2]string{
		{"Android", "Android"}, {"iPhone", "iPhone"}, {"iPad", "iPad"}, {"Windows", "Windows"}, {"Mac OS X", "macOS"}, {"CrOS", "ChromeOS"},
		{"Linux", "Linux"},
	}
)

func agentOf(userAgent string) string {
	name, on := "Unknown browser", ""
	for _, b := range browsers {
		if strings.Contains(userAgent, b[0]) {
			name = b[1]
			break
		}
	}
	for _, s := range systems {
		if strings.Contains(userAgent, s[0]) {
			on = " on " + s[1]
			break
		}
	}
	return name + on
}
