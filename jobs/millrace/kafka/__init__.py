"""Everything that speaks to Kafka: clients, topics, offsets, the transactional producer."""
