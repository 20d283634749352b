package mail_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/authquota/internal/mail"
)

var datum = regexp.MustCompile(`{{\.([a-z_]+)}}`)

var writer = mail.Writer{PublicURL: "https://api.example"}

// filled returns a message with distinguishable data: all that its template names.
func filled(t require.TestingT, template string) mail.Message {
	text := storetest.Must(os.ReadFile("templates/" + template + ".txt"))(t)
	data := map[string]string{}
	for _, name := range datum.FindAllStringSubmatch(string(text), -1) {
		data[name[1]] = "<" + name[1] + "> & \"it\""
	}
	delete(data, "site")
	delete(data, "operator")
	for _, link := range []string{"link", "cancel"} {
		if _, ok := data[link]; ok {
			data[link] = "https://api.example/account/" + link + "?token=a&b=c"
		}
	}
	return mail.Message{To: "ada@example.org", Template: template, Data: data}
}

func write(t require.TestingT, m mail.Message) mail.Letter { return storetest.Must(writer.Write(m))(t) }

func TestEveryMailIsWritten(t *testing.T) {
	subjects := map[string]bool{}
	for _, template := range mail.Templates() {
		t.Run(template, func(t *testing.T) {
			m := filled(t, template)
			letter := write(t, m)
			require.Equal(t, "ada@example.org", letter.To)
			require.NotContains(t, letter.Subject, "\n")
			require.False(t, subjects[letter.Subject], "%q twice", letter.Subject)
			subjects[letter.Subject] = true
			for name, value := range m.Data {
				require.Contains(t, letter.Text+letter.Subject, value, name)
			}
			for _, never := range []string{"<no value>", "{{", "[", "](", "ZgotmplZ"} {
				require.NotContains(t, letter.Text, never)
			}
			for _, never := range []string{"<no value>", "{{", "](", "ZgotmplZ", "<link>", "<name>", "src=", "url(", "@import",
				"<script", "<img", "<form"} {
				require.NotContains(t, letter.HTML, never, "plain HTML that loads nothing")
			}
			if link, ok := m.Data["link"]; ok {
				require.Contains(t, letter.HTML, `href="`+strings.ReplaceAll(link, "&", "&amp;")+`"`)
			}
			require.Contains(t, letter.Text, "https://api.example\n", "who writes")
			require.Contains(t, letter.HTML, "</html>")
		})
	}
}

func TestInvalidMessagesAreRejected(t *testing.T) {
	good := filled(t, "key-request-declined")
	for name, spoil := range map[string]func(*mail.Message){
		"unknown template": func(m *mail.Message) { m.Template = "hello" },
		"missing datum":    func(m *mail.Message) { delete(m.Data, "reason") },
		"no address":       func(m *mail.Message) { m.To = "" },
		"name and address": func(m *mail.Message) { m.To = "Ada <ada@example.org>" },
		"two addresses":    func(m *mail.Message) { m.To = "ada@example.org, bob@example.org" },
		"another header":   func(m *mail.Message) { m.To = "ada@example.org\r\nBcc: bob@example.org" },
	} {
		t.Run(name, func(t *testing.T) {
			m := filled(t, good.Template)
			spoil(&m)
			_, err := writer.Write(m)
			require.Error(t, err)
			require.NotContains(t, err.Error(), "bob")
		})
	}
	write(t, good)
}

// Any value becomes part of one line of the mail and nothing else.
func TestDataStayData(t *testing.T) {
	plain := write(t, filled(t, "new-sign-in"))
	rapid.Check(t, func(t *rapid.T) {
		m := filled(t, "new-sign-in")
		m.Data["agent"] = rapid.String().Draw(t, "agent")
		letter := write(t, m)
		require.Equal(t, strings.Count(plain.Text, "\n"), strings.Count(letter.Text, "\n"))
		require.Equal(t, strings.Count(plain.HTML, "<"), strings.Count(letter.HTML, "<"))
		m = filled(t, "key-revoked")
		m.Data["name"] = rapid.String().Draw(t, "name")
		require.False(t, strings.ContainsFunc(write(t, m).Subject, unicode.IsControl))
	})
	m := filled(t, "new-sign-in")
	m.Data["agent"] = "" // a browser without a name signs in anyway
	require.Contains(t, write(t, m).Text, "Browser: unknown")
	m.Data["agent"] = strings.Repeat("x", 10_000)
	require.Less(t, len(write(t, m).Text), 2_000)
}

func TestParagraphsOfTheOperator(t *testing.T) {
	m := filled(t, "api-change")
	m.Data["text"] = "One\n<two>\x00\n\nThree"
	letter := write(t, m)
	require.Contains(t, letter.Text, "One\n<two> \n\nThree\n\nChangelog:\n")
	require.Contains(t, letter.HTML, "<p>One<br>&lt;two&gt; </p>\n<p>Three</p>\n")
	m = filled(t, "account-suspended")
	m.Data["reason"] = "One\ntwo"
	require.Contains(t, write(t, m).Text, "One two", "other data stay one line")
}

func TestMaskedAddresses(t *testing.T) {
	require.Equal(t, "a…@example.org", mail.Masked("ada.lovelace@example.org"))
	require.Equal(t, "é…@example.org", mail.Masked("élan@example.org"))
	require.Equal(t, "…", mail.Masked("@example.org"))
	require.Equal(t, "…", mail.Masked("rubbish"))
}
