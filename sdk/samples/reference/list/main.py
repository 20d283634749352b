from opportunity_data import Client

client = Client()
for record in client.opportunities(country="CA", category="sell"):
    print(record["id"])
