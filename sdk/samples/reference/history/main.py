from opportunity_data import Client

client = Client()
for event in client.history("maple-scribe"):
    print(event["checkType"], event["outcome"])
