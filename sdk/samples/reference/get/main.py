from opportunity_data import Client

client = Client()
record = client.opportunity("maple-scribe").data
print(record["company"]["name"], record["verification"]["status"])
